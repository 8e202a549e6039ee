"""Finds an attribute of a test class that is nearly one that the harness reads, such as ``worldsize``."""

from __future__ import annotations

import difflib
import functools
import inspect
import warnings
from collections.abc import Iterator
from types import CodeType

from harness.testcase import TestCase

# What a test class may set or override, and what nobody misses where it is spelt otherwise.
READ = (
    "world_size",
    "rank_modes",
    "import_in_ranks",
    "destroy_pg_upon_exit",
    "setUpRank",
    "tearDownRank",
    "perThreadSetUp",
    "perThreadTearDown",
    "precision",
    "rel_tol",
)
# How like a name has to be, without its underscores and capitals: one letter of nine may be wrong, missing,
# too many, or two may have changed their places.
ALIKE = 0.88


def hint(cls: type) -> str:
    """The line about the first such name of a class and its bases; "" where there is none.

    The harness's own cases alone are looked at: a case of upstream's may have any names (``harness.dropin``).
    Where the class says the right name too, both are meant; and a name that its methods mention is its own.
    """
    return _found(cls)


@functools.cache
def _found(cls: type) -> str:
    if not issubclass(cls, TestCase):
        return ""
    theirs = [base for base in cls.__mro__ if not base.__module__.startswith(("harness.", "unittest"))]
    said = {name: base for base in reversed(theirs) for name in vars(base)}
    wanted = [name for name in READ if hasattr(cls, name) and name not in said]
    used = {name for base in theirs for value in vars(base).values() for name in _used(value)}
    for name, base in said.items():
        if name in used:
            continue
        meant = _meant(name, wanted)
        if meant:
            return f"nothing reads {base.__qualname__}.{name}: did you mean {meant}?"
    return ""


def _meant(name: str, wanted: list[str]) -> str:
    """The name that was meant; "" for one of its own, as ``world_sizes`` and ``old_world_size`` are."""
    if name.startswith(("_", "test")):
        return ""
    plain = {_plain(each): each for each in wanted if name == each.upper() or each not in name}
    near = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=ALIKE)
    return plain[near[0]] if near else ""


def _used(value: object) -> Iterator[str]:
    """The names that a method's code mentions, that of functions inside of it too."""
    code = getattr(value, "__code__", value)
    if isinstance(code, CodeType):
        yield from code.co_names
        for constant in code.co_consts:
            yield from _used(constant)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def warn(cls: type) -> None:
    """Warns of such a name, once in a process for each class."""
    _warn_once(cls)


@functools.cache
def _warn_once(cls: type) -> None:
    text = _found(cls)
    if text:
        warnings.warn_explicit(text, UserWarning, *_place(cls))


def _place(cls: type) -> tuple[str, int]:
    """The file and the line of a class; its module's name where the source cannot be read."""
    try:
        return inspect.getfile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return cls.__module__, 1
