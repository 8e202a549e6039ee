"""Finds the variables and attributes that a step's Python code may read beside its arguments.

Such a value becomes a constant of the graph, so the graph is valid for that value only. A walk finds the
values by name. It starts at the step's function, the functions among its arguments, the module's forwards and
the optimizer's step, takes the variables that their code names, and goes on through the functions and objects
in these. Of an object it takes the attributes that any of this code names. It does not enter torch, the
standard library and installed packages, and it cannot see names that code computes at run time.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

import harness
from harness.graphs.train_step.call_arguments import StepCall
from harness.graphs.train_step.snapshots import LONGEST, GuardSnapshot, is_plain
from harness.graphs.train_step.state import MODULE_TENSORS, describe_module

# Directories of code that the walk does not enter, because it does not change between steps.
_LIBRARIES = (
    *(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "purelib", "platlib")),
    *(os.path.dirname(str(package.__file__)) + os.sep for package in (torch, harness)),
)
_CONTAINERS = (list, tuple, set, frozenset, deque)


def describe_reads(function: Callable[..., Any], call: StepCall, snapshot: GuardSnapshot) -> None:
    """Notes every value that the code of a call may read under the place of it: ``captured config.scale``."""
    walk = _Walk()
    walk.enter("captured ", function)
    for name, leaf in call.leaves:
        if callable(leaf) and not isinstance(leaf, nn.Module):
            walk.enter(f"argument {name}.", leaf)
    for name, part in call.module.named_modules():
        walk.enter_part(f"module {name}." if name else "module.", part)
    if call.optimizer is not None:
        walk.enter("optimizer.", type(call.optimizer).step)
    walk.finish()
    for where, value in walk.found.items():
        snapshot.note(where, value)
    for where, module in walk.modules.items():
        describe_module(module, snapshot, where)


class _Walk:
    """The walk over the code of one call.

    ``found`` has the values by place, ``modules`` the modules among them. No object is entered twice.
    """

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.modules: dict[str, nn.Module] = {}
        self._seen: set[int] = set()
        self._names: set[str] = set()
        self._objects: list[tuple[str, object]] = []

    def enter(self, where: str, value: Any) -> None:
        """Adds all values that can be reached from ``value``, with places that begin with ``where``."""
        if is_plain(value) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, types.FunctionType):
            self._enter_function(where, value)
        elif isinstance(value, types.MethodType):
            self.enter(where, value.__func__)
            self.enter(where, value.__self__)
        elif isinstance(value, partial):
            self._enter_items(where, (value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, (property, staticmethod, classmethod)):
            self.enter(where, getattr(value, "fget", None) or getattr(value, "__func__", None))
        elif isinstance(value, _CONTAINERS):
            self._enter_items(where, value)
        elif isinstance(value, Mapping):
            self._enter_items(where, value.values())
        elif isinstance(value, nn.Module):
            self.modules[f"{where[:-1]} as module"] = value
            for name, part in value.named_modules():
                self.enter_part(f"{where}{name}." if name else where, part)
        elif _may_change(value):
            self._objects.append((where, value))

    def enter_part(self, where: str, part: nn.Module) -> None:
        """Adds a module's forward, its class, and the values of its attributes."""
        self._seen.add(id(part))
        self._objects.append((where, type(part)))
        self._enter_each(where, _of_class(type(part), {"forward"}))
        for key, value in vars(part).items():
            if key not in MODULE_TENSORS:
                self.enter(f"{where}{key}.", value)

    def finish(self) -> None:
        """Adds the attributes of objects that any of the code names, until no new ones are found."""
        before = -1
        while before != len(self._seen) + len(self.found):
            before = len(self._seen) + len(self.found)
            for where, value in list(self._objects):
                self._enter_each(where, _attributes(value, self._names))

    def _enter_each(self, where: str, values: Iterator[tuple[str, Any]]) -> None:
        for name, value in values:
            self.found[where + name] = value
            self.enter(f"{where}{name}.", value)

    def _enter_items(self, where: str, items: Any) -> None:
        if len(items) <= LONGEST:
            for index, item in enumerate(items):
                self.enter(f"{where[:-1]}[{index}].", item)

    def _enter_function(self, where: str, function: types.FunctionType) -> None:
        inner = inspect.unwrap(function)
        if inner is not function:
            self.enter(where, inner)
        if function.__code__.co_filename.startswith(_LIBRARIES):
            return
        self._names |= _names(function.__code__)
        self._enter_each(where, _variables(function))


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """A function's defaults, attributes, closure variables, and the globals that its code names."""
    parameters = function.__code__.co_varnames
    defaults = function.__defaults__ or ()
    positional = parameters[: function.__code__.co_argcount]
    yield from zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    yield from ((name, value) for name, value in vars(function).items() if not name.startswith("_"))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the variable is not assigned yet
            continue
    names = _names(function.__code__)
    yield from ((name, function.__globals__[name]) for name in sorted(names & function.__globals__.keys()))


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> frozenset[str]:
    """The globals and attributes that a code object and the functions defined in it name."""
    inner = (_names(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return frozenset(code.co_names).union(*inner)


def _may_change(value: object) -> bool:
    """Whether to look at an object's attributes: not at those of torch's objects or of installed modules."""
    if isinstance(value, types.ModuleType):
        return not _is_library(value.__name__, value)
    kind = value if isinstance(value, type) else type(value)
    return _home(kind).partition(".")[0] != "torch" and not isinstance(value, torch.Tensor)


def _attributes(value: object, names: set[str]) -> Iterator[tuple[str, Any]]:
    """The attributes in ``names`` of an object, a class or a Python module."""
    if isinstance(value, type):
        yield from _of_class(value, names)
        return
    yield from _named(getattr(value, "__dict__", {}), names)
    if not isinstance(value, types.ModuleType):
        slots = {name for each in type(value).__mro__ for name in names & set(_slots(each))}
        yield from ((name, getattr(value, name)) for name in sorted(slots) if hasattr(value, name))
        yield from _of_class(type(value), names | {"__call__"})


def _slots(kind: type) -> Iterator[str]:
    return (name for name, value in vars(kind).items() if isinstance(value, types.MemberDescriptorType))


def _of_class(kind: type, names: set[str]) -> Iterator[tuple[str, Any]]:
    """The attributes in ``names`` of a user's class and its user-defined bases, overridden ones included."""
    for each in kind.__mro__:
        if not _is_library(_home(each), sys.modules.get(_home(each))):
            yield from ((f"{each.__name__}.{name}", value) for name, value in _named(vars(each), names))


def _home(kind: type) -> str:
    """The name of a class's module; empty for C types whose ``__module__`` is a descriptor, not a name."""
    return kind.__module__ if isinstance(kind.__module__, str) else ""


def _is_library(name: str, module: types.ModuleType | None) -> bool:
    file = str(getattr(module, "__file__", None) or "")
    return name.partition(".")[0] in sys.stdlib_module_names or file.startswith(_LIBRARIES)


def _named(values: Mapping[str, Any], names: set[str]) -> Iterator[tuple[str, Any]]:
    return ((name, values[name]) for name in sorted(names & values.keys()))
