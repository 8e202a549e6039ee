"""Process groups and work handles that are written in Python: which of their methods hide those of torch.

``class Mine(dist.ProcessGroup)`` has methods of its own, and what is wrapped of ``ProcessGroup`` never hears
of its calls. So the methods of subclasses are wrapped as well: those of classes that exist, and of each class
when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from types import FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# Classes whose calls are recorded otherwise, or are those of several ranks.
_NOT_RANKS = ("torch.testing._internal.", "harness.")


def overrides(base: type[Any], names: Collection[str]) -> Iterator[tuple[type[Any], str]]:
    """The methods of those names that subclasses of ``base`` have in Python, each with its class."""
    for made in base.__subclasses__():
        yield from _own(made, names)
        yield from overrides(made, names)


def _own(made: type[Any], names: Collection[str]) -> Iterator[tuple[type[Any], str]]:
    if not made.__module__.startswith(_NOT_RANKS):
        yield from ((made, name) for name in names if type(vars(made).get(name)) is FunctionType)


def on_each_subclass(base: type[Any], names: Collection[str], wrap: Callable[[Any, str], Any]) -> None:
    """Has ``wrap(method, name)`` put in place of those methods in each class that is made of ``base``."""

    def made(cls: type[Any], /, **kwargs: Any) -> None:
        super(base, cls).__init_subclass__(**kwargs)
        for owner, name in list(_own(cls, names)):
            setattr(owner, name, wrap(vars(owner)[name], name))

    base.__init_subclass__ = classmethod(made)  # type: ignore[assignment]  # as a class statement would


def named(function: F, name: str) -> F:
    """The function under the name that its code has in a traceback.

    By that, pybind11 tells a method that calls the one which it hides from another one: else torch's C++
    would call ``function`` again, for ever, where a group of Python leaves the method out.
    """
    function.__code__ = function.__code__.replace(co_name=name)
    return function
