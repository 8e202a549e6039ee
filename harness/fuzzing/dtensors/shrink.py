"""Makes DTensor programs simpler by one change at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.fuzzing.dtensors.draw import MAX_ELEMENTS
from harness.fuzzing.dtensors.plain import Twins, can_run_backward
from harness.fuzzing.dtensors.program import DTensorProgram, Input

#: Sizes that shrinking puts in place of larger ones, the smallest first.
SIZES = (1, 2, 3, 4)


def simpler(program: DTensorProgram) -> Iterator[DTensorProgram]:
    """Programs simpler by one change that plain tensors can run: at first those with fewer statements."""
    return (each for each in _candidates(program) if runs_plain(each))


def runs_plain(program: DTensorProgram) -> bool:
    """Whether a program could have been drawn: by the rules for its statements and for its gradients."""
    twins = Twins(program.inputs)
    accepted = all(twins.accept(each, MAX_ELEMENTS) for each in program.statements)
    return accepted and (not program.backward or can_run_backward(program))


def _candidates(program: DTensorProgram) -> Iterator[DTensorProgram]:
    count = len(program.inputs) + len(program.statements)
    for first in range(len(program.inputs) + 1, count):
        yield replace(program, statements=program.statements[: first - len(program.inputs)])
    for number in reversed(range(count)):
        yield from _without(program, number)
    if program.backward:
        yield replace(program, backward=False)
    yield from _on_simpler_meshes(program)
    for number, each in enumerate(program.inputs):
        for plainer in _plainer(each):
            inputs = (*program.inputs[:number], plainer, *program.inputs[number + 1 :])
            yield replace(program, inputs=inputs)


def _without(program: DTensorProgram, number: int) -> Iterator[DTensorProgram]:
    """The program without one value; what used it uses that value's first operand, if it is a statement's."""
    inputs = len(program.inputs)
    uses = any(number in each.operands for each in program.statements)
    if number < inputs and (uses or inputs == 1):
        return
    instead = number if number < inputs else program.statements[number - inputs].operands[0]
    kept = tuple(
        replace(each, operands=tuple(_moved(operand, number, instead) for operand in each.operands))
        for at, each in enumerate(program.statements, inputs)
        if at != number
    )
    own = tuple(each for at, each in enumerate(program.inputs) if at != number)
    yield replace(program, inputs=own, statements=kept)


def _moved(operand: int, gone: int, instead: int) -> int:
    operand = instead if operand == gone else operand
    return operand - 1 if operand > gone else operand


def _on_simpler_meshes(program: DTensorProgram) -> Iterator[DTensorProgram]:
    """The program on a mesh with one dimension less, or with a dimension of two ranks."""
    for dim, size in enumerate(program.mesh):
        if len(program.mesh) > 1:
            yield _on_mesh(program, (*program.mesh[:dim], *program.mesh[dim + 1 :]), dim)
        if size > 2:
            yield _on_mesh(program, (*program.mesh[:dim], 2, *program.mesh[dim + 1 :]), None)


def _on_mesh(program: DTensorProgram, mesh: tuple[int, ...], gone: int | None) -> DTensorProgram:
    def fitted(each: Any) -> Any:
        placements = tuple(p for dim, p in enumerate(each.placements) if dim != gone)
        return replace(each, placements=placements)

    statements = tuple(fitted(each) if each.placements else each for each in program.statements)
    return replace(program, mesh=mesh, inputs=tuple(map(fitted, program.inputs)), statements=statements)


def _plainer(each: Input) -> Iterator[Input]:
    """The input with a dimension less, or with one field made plainer."""
    for dim, size in enumerate(each.shape):
        for smaller in SIZES:
            if smaller < size:
                yield replace(each, shape=(*each.shape[:dim], smaller, *each.shape[dim + 1 :]))
    for dim, placement in enumerate(each.placements):
        if placement != "Replicate()":
            changed = (*each.placements[:dim], "Replicate()", *each.placements[dim + 1 :])
            yield replace(each, placements=changed)
    if each.grad:
        yield replace(each, grad=False)
