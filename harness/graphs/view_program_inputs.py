"""``ViewInputs``: from which tensors the arguments of a program of views are made, and how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.graphs.view_program_lines import executed

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: How an argument is made from a tensor, from which other arguments may be made too.
ARGUMENTS = ("{0}", "{0}.view(-1)", "{0}[0]", "{0}[1:]", "{0}.t()", "{0}.detach()", "{0}[:, 0]")
SHAPES = ((4,), (2, 2), (2, 3), (3,), (1, 3))
# How many arguments a program has at most, and by which names it calls them.
PARAMETERS = "abc"
_SHAPE = re.compile(r"x\d = .*\.reshape\(\((.*?)\)\)")


@dataclass(frozen=True, slots=True)
class ViewInputs:
    """``bases``: shapes, and whether each requires grad; ``arguments``: a base's index and a template."""

    bases: tuple[tuple[tuple[int, ...], bool], ...]
    arguments: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, setup: Sequence[str], arguments: Sequence[str]) -> ViewInputs:
        """The inputs whose ``lines`` these are."""
        bases = []
        for line in setup:
            found = _SHAPE.match(line)
            if found is not None:
                shape = tuple(int(size) for size in found[1].split(",") if size)
                bases.append((shape, ".requires_grad_()" in line))
        made = [(int(argument[1]), "{0}" + argument[2:]) for argument in arguments]
        return cls(tuple(bases), tuple(made))

    def lines(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Setup lines, leaves and arguments, as ``ViewProgram`` has them.

        A leaf is never an argument, since it cannot be written to. A template that does not fit its base's
        shape is the base.
        """
        setup, leaves = [], []
        for index, (shape, grad) in enumerate(self.bases):
            first, size = index * 10 + 1, torch.Size(shape).numel()
            setup.append(f"x{index} = torch.arange({first:.1f}, {first + size}).reshape({shape})")
            setup[-1] += ".clone()" + (".requires_grad_()" if grad else "")
            setup.append(f"y{index} = x{index} * 1")
            leaves.append(f"x{index}")
        scope: dict[str, Any] = {"torch": torch}
        exec("\n".join(setup), scope)
        made = [(template.format(f"y{index}"), f"y{index}") for index, template in self.arguments]
        arguments = [argument if executed(argument, scope) else base for argument, base in made]
        return tuple(setup), tuple(leaves), tuple(arguments)
