"""How a requirement sits on a test: written as data, read back as data, and obeyed when the test is called.

    @decorator            function:  a new function with the longer tuple, which judges its requirement first
    def test_x(self)      class:     the longer tuple, and a skip that unittest asks the class for, lazily

Nothing is judged at decoration: a module full of decorated tests loads without a probe and without torch.
A requirement that hangs on the world size is judged where that is known: by `reason_to_skip(test)` in the
parent before any rank is launched, and by the function itself when it is called, in a rank or anywhere.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import unittest
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from harness.requirements import probes
from harness.requirements.kinds import Importable, Requirement, WorldSizeDemand
from harness.requirements.machine import MachineFacts, Occasion, occasion_from, wishes_from
from harness.requirements.merged import Requirements, merge, unmet
from harness.requirements.scheduling import Slow

ATTRIBUTE = "__harness_requirements__"

Test = TypeVar("Test", bound=Callable[..., Any])


def require(requirement: Requirement) -> Callable[[Test], Test]:
    """A decorator that puts one requirement on a test method or a test class.

    Works above and below other decorators, as long as those use functools.wraps. ValueError where it is
    put on something that cannot be called.
    """

    def decorate(test: Test) -> Test:
        if inspect.isclass(test):
            return cast(Test, _require_of_class(test, requirement))
        if not callable(test):
            raise ValueError(f"{test!r} is no test; put the decorator on a test method or a test class")
        return cast(Test, _require_of_function(test, requirement))

    return decorate


def requirements_of(owner: object, method_name: str) -> Requirements:
    """What one test asks for: its own requirements, those of its class, and of the bases of its class.

    `owner` is a test class, or an instance of one. A method that a subclass overrides brings its own
    requirements only; those on a base class hold for every subclass. PyTorch's own marks (`slow_test`,
    `_required_world_size`) count too. Runs nothing, imports nothing. ValueError where no such method is.
    """
    cls = owner if isinstance(owner, type) else type(owner)
    method = getattr(owner, method_name, None)
    if method is None:
        raise ValueError(f"{cls.__qualname__} has no test {method_name!r}; name one of its methods")
    return merge(_on_function(method), _on_class(cls))


def reason_to_skip(test: unittest.TestCase) -> str | None:
    """Why this test skips on this machine, or None where it runs; for a base class to ask before it launches.

    The world size is `test.world_size` where that is a positive number, else `WORLD_SIZE`. What only the
    process that runs the test can find out (a driver's answer, an import that fails half-way) is left to the
    decorator, which judges again when the test is called.
    """
    requirements = requirements_of(test, _method_name(test))
    if not requirements.items:
        return None
    counts = any(item.needs_world_size for item in requirements.items)
    occasion = _occasion_of(test) if counts else wishes_from(os.environ)
    return unmet(requirements, _facts_outside(requirements), occasion)


def get_required_world_size(obj: object, default: int) -> int:
    """How many ranks the test that `obj` runs now demands, or `default` where it demands none."""
    name = _method_name(obj)
    if not hasattr(obj, name):
        return default
    demanded = requirements_of(obj, name).world_size
    return default if demanded is None else demanded


def _require_of_function(function: Callable[..., Any], requirement: Requirement) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def judged_async(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs) if _may_run(requirement, function, args) else None

        wrapper: Callable[..., Any] = judged_async
    else:

        @functools.wraps(function)
        def judged(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) if _may_run(requirement, function, args) else None

        wrapper = judged
    setattr(wrapper, ATTRIBUTE, (*getattr(function, ATTRIBUTE, ()), requirement))
    return wrapper


def _may_run(requirement: Requirement, function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """True: run the test. False: it ends here and passes. A skip is raised."""
    test = args[0] if args else None
    reason = _reason_here(requirement, test)
    if reason is None:
        return True
    if requirement.passes_in_sandcastle and wishes_from(os.environ).sandcastle:
        print(f"{function.__qualname__} passes without running: {reason}", file=sys.stderr)
        return False
    handler = getattr(test, "_handle_test_skip", None) if requirement.skip_handled_by_test else None
    if handler is None:
        raise unittest.SkipTest(reason)
    handler(reason)
    return False


def _reason_here(requirement: Requirement, test: object) -> str | None:
    """The verdict in the process that is about to run the test."""
    occasion = _occasion_of(test) if requirement.needs_world_size else wishes_from(os.environ)
    reason = requirement.unmet(_facts_inside(requirement), occasion)
    if reason is None and requirement.needs_world_size and occasion.world_size is None:
        raise ValueError(
            f"a test that {requirement.reason} must know its world size, and nothing here says it; "
            f"give the test a world_size attribute, or set WORLD_SIZE"
        )
    return reason


def _facts_inside(requirement: Requirement) -> MachineFacts:
    facts = probes.probe()
    if requirement.needs_driver and facts.devices("cuda"):
        return replace(facts, multicast=probes.multicast_here())
    if isinstance(requirement, Importable):
        imports = probes.module_imports(requirement.module, requirement.names)
        return replace(facts, modules=((requirement.module, imports),))
    return facts


def _facts_outside(requirements: Requirements) -> MachineFacts:
    return probes.probe_modules(probes.probe(), requirements.imports)


def _occasion_of(test: object) -> Occasion:
    size, backend = getattr(test, "world_size", None), getattr(test, "backend", None)
    known = int(size) if isinstance(size, int | str) and str(size).isdecimal() else None
    return occasion_from(
        os.environ, world_size=known or None, backend=backend if isinstance(backend, str) else None
    )


def _method_name(test: object) -> str:
    current = getattr(test, "_current_test_name", None)
    return str(current() if callable(current) else getattr(test, "_testMethodName", ""))


def _on_function(method: object) -> tuple[Requirement, ...]:
    """Outermost first, with what PyTorch's own decorators have left on the function."""
    own: tuple[Requirement, ...] = tuple(reversed(getattr(method, ATTRIBUTE, ())))
    size = getattr(method, "_required_world_size", None)
    if isinstance(size, int) and not any(isinstance(item, WorldSizeDemand) for item in own):
        own += (WorldSizeDemand(size=size, reason=f"runs on {size} ranks"),)
    if getattr(method, "slow_test", False) and not any(isinstance(item, Slow) for item in own):
        own += (Slow(reason="is marked slow"),)
    return own


@functools.lru_cache(maxsize=64)
def _on_class(cls: type) -> tuple[Requirement, ...]:
    """Outermost first, a class before its bases."""
    return tuple(item for klass in cls.__mro__ for item in reversed(klass.__dict__.get(ATTRIBUTE, ())))


class _LazySkip:
    """`__unittest_skip__` or `__unittest_skip_why__` of a class, found out when unittest or pytest asks.

    So a class-level requirement skips the whole class before its setUpClass, with no probe at decoration, and
    a subclass inherits it however it overrides setUp.
    """

    def __init__(self, of_reason: Callable[[str | None], object]) -> None:
        self._of_reason = of_reason

    def __get__(self, instance: object, owner: type) -> object:
        requirements = merge((), _on_class(owner))
        facts = _facts_outside(requirements)
        # No world size: it is the instance's to say. No pass in a sandcastle either: a class cannot pass.
        occasion = replace(wishes_from(os.environ), sandcastle=False)
        return self._of_reason(unmet(requirements, facts, occasion))


def _require_of_class(cls: type, requirement: Requirement) -> type:
    setattr(cls, ATTRIBUTE, (*cls.__dict__.get(ATTRIBUTE, ()), requirement))
    _on_class.cache_clear()
    # A class that skips already, by unittest.skip, goes on doing so; one with our own answer needs no second.
    if not inspect.getattr_static(cls, "__unittest_skip__", False):
        cls.__unittest_skip__ = _LazySkip(lambda reason: reason is not None)  # type: ignore[attr-defined]
        cls.__unittest_skip_why__ = _LazySkip(lambda reason: reason or "")  # type: ignore[attr-defined]
    if requirement.needs_world_size or requirement.needs_driver:
        _judge_in_set_up(cls, requirement)
    return cls


def _judge_in_set_up(cls: type, requirement: Requirement) -> None:
    set_up = getattr(cls, "setUp", None)
    if set_up is None:
        raise ValueError(f"{cls.__qualname__} is no unittest.TestCase; put the decorator on its methods")

    @functools.wraps(set_up)
    def judged_set_up(self: unittest.TestCase) -> Any:
        reason = _reason_here(requirement, self)
        if reason is not None:
            raise unittest.SkipTest(reason)
        return set_up(self)

    cls.setUp = judged_set_up  # type: ignore[attr-defined]
