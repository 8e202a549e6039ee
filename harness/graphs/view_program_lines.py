"""``Lines``: the statements of a program of views that eager can run, and whose results are defined.

A program that is drawn and one that is made of another one (``view_program_changes``) are built of them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.graphs.aliasing import overlaps_otherwise, storages

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: How many statements a program has at most, where nobody asks for more or less.
STATEMENTS = 6
#: Views of ``{0}``. Not all fit all sizes; those that do not are left out of the program.
VIEWS = (
    "{0}.view(-1)",
    "{0}.t()",
    "{0}[0]",
    "{0}[1:]",
    "{0}[..., ::2]",
    "{0}.unsqueeze(0)",
    "{0}.squeeze(0)",
    "{0}.view_as({0})",
    "{0}.diagonal()",
    "{0}.expand(2, *{0}.shape)",
    "{0}.detach()",
)
#: Writes to ``{0}``, some of which read ``{1}``.
WRITES = ("{0}.mul_(2)", "{0}.add_({1})", "{0}.copy_({1})", "{0}.zero_()", "{0}[0] = 7", "{0}.sin_()")
#: In-place changes of the sizes and strides of ``{0}``.
METADATA = ("{0}.t_()", "{0}.unsqueeze_(0)", "{0}.squeeze_(0)", "{0}.transpose_(0, -1)")
#: New tensors.
COMPUTED = ("{0} + {1}", "{0} * 3", "{0} * {1}", "{0}.clone()", "{0}.sum()", "{0}.sin()")

_NO_GRAD = "with torch.no_grad(): "


@dataclass(frozen=True, slots=True)
class Statement:
    """A template with the names of its operands. ``name``: that of the new tensor, where it makes one."""

    template: str
    first: str
    second: str
    no_grad: bool
    name: str

    @property
    def makes(self) -> bool:
        """Whether the statement assigns a new tensor."""
        return self.template in VIEWS + COMPUTED

    @property
    def line(self) -> str:
        """The statement as a line. Views are never under ``no_grad``: eager would take them for leaves."""
        line = self.template.format(self.first, self.second)
        if self.makes:
            line = f"{self.name} = {line}"
        guarded = self.no_grad and self.template not in VIEWS + METADATA
        return f"{_NO_GRAD}{line}" if guarded else line

    @classmethod
    def of(cls, line: str) -> Statement:
        """The statement of a line; ValueError where it is of no template."""
        text = line.removeprefix(_NO_GRAD)
        name, _, made = text.partition(" = ")
        makes = name.isidentifier()
        for template in VIEWS + COMPUTED if makes else WRITES + METADATA:
            found = _pattern(template).fullmatch(made if makes else text)
            if found is not None:
                operands = found.groupdict()
                second = operands.get("second", operands["first"])
                return cls(template, operands["first"], second, text != line, name if makes else "")
        raise ValueError(f"{line!r} is of no template")


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    """What matches a template with its operands."""
    pattern = re.escape(template)
    for operand, name in ((r"\{0\}", "first"), (r"\{1\}", "second")):
        pattern = pattern.replace(operand, rf"(?P<{name}>\w+)", 1).replace(operand, f"(?P={name})")
    return re.compile(pattern)


class Lines:
    """The statements of a function that were added and that eager ran, and its tensors by name."""

    def __init__(self, setup: Sequence[str], arguments: Sequence[str], parameters: Sequence[str]) -> None:
        self._parameters = tuple(parameters)
        self._scope: dict[str, Any] = {"torch": torch}
        assignment = f"{', '.join(parameters)}, = {', '.join(arguments)},"
        exec("\n".join([*setup, assignment]), self._scope)
        self.lines: list[str] = []
        self.names = list(parameters)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The parameters and what the statements made."""
        return {name: self._scope[name] for name in self.names}

    def add(self, statement: Statement) -> None:
        """Adds a statement, unless eager does not run it, or torch gets it wrong whatever the compiler is.

        See ``view_programs`` for what is left out.
        """
        if statement.first not in self.names or statement.second not in self.names:
            return
        if not self._means_something(statement):
            return
        before = _layout(self._scope[statement.first])
        if not executed(statement.line, self._scope):
            return
        if statement.template in METADATA and _layout(self._scope[statement.first]) == before:
            return
        self.lines.append(statement.line)
        self.names += [statement.name] if statement.makes else []

    def _means_something(self, statement: Statement) -> bool:
        """Whether it changes no metadata that torch keeps otherwise, and no write depends on an order."""
        first, second = self._scope[statement.first], self._scope[statement.second]
        if statement.template in METADATA:
            return statement.first in self._parameters and not self._has_views(statement.first)
        reads = statement.template in WRITES and "{1}" in statement.template
        return not (reads and overlaps_otherwise(first, second))

    def _has_views(self, name: str) -> bool:
        own = storages(self._scope[name])
        return any(own & storages(self._scope[other]) for other in self.names if other != name)

    def outputs(self, names: Sequence[str], *, metadata: bool, shared: bool) -> list[str]:
        """Those of ``names`` that a program of such options may return; where none, a new tensor's."""
        tensors = self.tensors
        kept = _apart(names, tensors, self._parameters) if shared else list(names)
        if metadata:
            kept = [name for name in kept if name not in self._parameters or tensors[name].requires_grad]
        if not kept:
            self.lines.append("last = a * 3")
            return ["last"]
        return kept


def _apart(names: Sequence[str], tensors: Mapping[str, torch.Tensor], parameters: Sequence[str]) -> list[str]:
    """``names`` without views of shared arguments, and with one at most per tensor made in the function."""
    held = [storages(tensors[name]) for name in parameters]
    private = set().union(*(own for own in held if held.count(own) == 1))
    shared = set().union(*held) - private
    taken: set[Hashable] = set()
    kept = []
    for name in names:
        own = storages(tensors[name]) - private
        if name in parameters or not own & (taken | shared):
            kept.append(name)
        taken |= own
    return kept


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride()


def executed(line: str, scope: dict[str, Any]) -> bool:
    """Whether ``line`` ran without an error of eager."""
    try:
        exec(line, scope)
    except (RuntimeError, IndexError):
        return False
    return True
