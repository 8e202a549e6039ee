"""Plants a mutant in a process that has imported torch: functions that are there get the mutant's code."""

from __future__ import annotations

import gc
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.errors import HarnessError
from tools.mutation.sites import instructions

# How a function's code is found again in another compilation of its file: name and first line.
Key = tuple[str, int]
# Functions, each with the code that it is to get.
Changes = list[tuple[types.FunctionType, types.CodeType]]


class NotReplaceable(HarnessError):
    """The mutant cannot be planted so; the message says why."""


def changed_code(original: types.CodeType, mutant: types.CodeType) -> tuple[Key, dict[Key, types.CodeType]]:
    """What a mutant changes in a module: the outermost function, and the new code of it and of those in it.

    NotReplaceable where it changes what runs at import, no function or several, or a function that has its
    first line and its name in common with another one of the same function.
    """
    before, after = list(_outermost(original)), list(_outermost(mutant))
    if len(before) != len(after):
        raise NotReplaceable("it changes the module's or a class's own code")
    changed = [(old, new) for old, new in zip(before, after, strict=True) if not _same(old, new)]
    if len(changed) != 1:
        raise NotReplaceable(f"it changes {len(changed)} functions")
    [(old, new)] = changed
    found, olds = _by_key(new), _by_key(old)
    codes: dict[Key, types.CodeType] = {}
    for key, several in olds.items():
        news = found.get(key, [])
        if all(_same(a, b) for a, b in zip(several, news, strict=False)) and len(several) == len(news):
            continue
        if len(several) > 1 or len(news) > 1:
            raise NotReplaceable(f"several functions are called {key[0]} on line {key[1]}")
        if news:
            codes[key] = news[0]
    return _key(old), codes


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    return _key(one) == _key(other) and instructions(one) == instructions(other)


def _key(code: types.CodeType) -> Key:
    return code.co_name, code.co_firstlineno


def _outermost(code: types.CodeType) -> Iterator[types.CodeType]:
    """The functions of a module, methods included, but none that is in a function."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_flags & inspect.CO_OPTIMIZED:
                yield constant
            else:  # the body of a class
                yield from _outermost(constant)


def _by_key(code: types.CodeType) -> dict[Key, list[types.CodeType]]:
    found: dict[Key, list[types.CodeType]] = {_key(code): [code]}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for key, codes in _by_key(constant).items():
                found.setdefault(key, []).extend(codes)
    return found


class Functions:
    """The functions of some files that are in this process, and those that ran while it imported them.

    What ran then has left its results behind, which other code for it does not change.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._ran: set[tuple[str, Key]] = set()
        self._there: Mapping[tuple[str, Key], list[types.FunctionType]] = {}

    def __enter__(self) -> Functions:
        """From here on modules are imported, and what runs is noted."""
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Imports are over: finds the functions."""
        sys.setprofile(None)
        there: dict[tuple[str, Key], list[types.FunctionType]] = {}
        for function in gc.get_objects():
            if type(function) is types.FunctionType and function.__code__.co_filename in self._paths:
                code = function.__code__
                there.setdefault((code.co_filename, _key(code)), []).append(function)
        self._there = there

    def _note(self, frame: types.FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename in self._paths:
            self._ran.add((code.co_filename, _key(code)))

    def to_change(self, path: str, outermost: Key, codes: Mapping[Key, types.CodeType]) -> Changes:
        """The functions that need the code which ``changed_code`` found. NotReplaceable where they cannot."""
        if (path, outermost) in self._ran:
            raise NotReplaceable("the function runs as torch is imported")
        if (path, outermost) not in self._there:
            raise NotReplaceable("there is no such function in the process")
        changes = [
            (function, code) for key, code in codes.items() for function in self._there.get((path, key), ())
        ]
        for function, code in changes:
            if function.__code__.co_freevars != code.co_freevars:
                raise NotReplaceable("it needs other variables of the functions around it")
        return changes
