"""Runs a DTensor program and compares every value and gradient with plain tensors."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from harness.fuzzing.dtensors import checks
from harness.fuzzing.dtensors.operators import written_count
from harness.fuzzing.dtensors.plain import extend, inputs_of, outcome, placements_of, quiet
from harness.fuzzing.dtensors.program import DTensorProgram
from harness.fuzzing.dtensors.ranks import Ranks
from harness.fuzzing.hunted import Rejected
from harness.fuzzing.processor_limit import within

#: Seconds of processor time after which a program counts as one that never ends; most take a tenth of one.
LIMIT_S = 10
#: What DTensor says where it does not support something, and local tensors where ranks branch unlike.
REFUSED = re.compile(
    "sharding strategy|not supported|not implemented|redistribute the|requires redistribution"
    "|without redistribution|one process plays all ranks",
    re.IGNORECASE,
)


def differences(program: DTensorProgram, ranks: Ranks) -> list[str]:
    """Texts that say how DTensors differ from plain tensors, each with the kind in its first line.

    Raises what DTensor raises, unless a value that was there already has a wrong shape or type, which is told
    then; ``is_refusal`` tells whether what is raised only says what is not supported.
    """
    with ranks.plain():
        expected, gradients = outcome(program)
    with quiet():
        inputs = _placed(program, ranks)
        values = list(inputs)
        try:
            _run(program, values, ranks)
        except Exception:
            if early := _wrong_before(program, values, ranks):
                return early
            raise
        # Everything is compared before anything is said: the other ranks take part in all of it.
        found = [_compared(*each, ranks) for each in zip(program.names, values, expected, strict=True)]
        if program.backward:
            names = [f"{name}.grad" for name in program.names[: len(inputs)]]
            own = [each.grad for each in inputs]
            found += [_compared(*each, ranks) for each in zip(names, own, gradients, strict=True)]
    return [each for each in found if each]


def failure(program: DTensorProgram, ranks: Ranks) -> Exception | None:
    """How a program fails: an AssertionError for the first difference, or what DTensor raises.

    None where it does not, and ``Rejected`` where DTensor says that it does not support something, or local
    tensors that one process cannot take the branches of all ranks. ``NeverEnds`` where Python code loops.
    """
    try:
        with within(LIMIT_S):
            found = differences(program, ranks)
    except Exception as error:  # noqa: BLE001  (whatever DTensor raises is what is looked for)
        return Rejected(str(error)) if is_refusal(error) else error
    return AssertionError(found[0]) if found else None


def is_refusal(error: BaseException) -> bool:
    """Whether an error says that DTensor does not support something, or that one process cannot play it."""
    return isinstance(error, NotImplementedError) or REFUSED.search(str(error)) is not None


def _placed(program: DTensorProgram, ranks: Ranks) -> list[DTensor]:
    mesh = ranks.mesh(program.mesh)
    with ranks.plain():
        wholes = inputs_of(program.inputs)
    return [
        ranks.placed(whole, mesh, placements_of(each.placements))
        for whole, each in zip(wholes, program.inputs, strict=True)
    ]


def _run(program: DTensorProgram, values: list[Any], ranks: Ranks) -> None:
    """Appends all values on DTensors to the inputs, which have gradients after a backward."""
    mesh = ranks.mesh(program.mesh)
    extend(values, program.statements, lambda value, placements: value.redistribute(mesh, placements))
    if program.backward and (loss := checks.loss_of(values)) is not None:
        loss.backward()


def _wrong_before(program: DTensorProgram, values: list[Any], ranks: Ranks) -> list[str]:
    """How values that were there before an error differ beside their numbers: the error is of that then.

    A statement that fails in a write may have changed them itself.
    """
    made = len(values) - len(program.inputs)
    if any(written_count(each.template) for each in program.statements[made : made + 1]):
        return []
    with ranks.plain():
        expected, _ = outcome(replace(program, statements=program.statements[:made], backward=False))
    texts = [checks.misfit(*each) for each in zip(program.names, values, expected, strict=False)]
    return [each for each in texts if each]


def _compared(name: str, got: Any, right: torch.Tensor | None, ranks: Ranks) -> str:
    text = checks.misfit(name, got, right)
    if text or got is None or right is None:
        return text
    wholes, parts = ranks.held(got.detach().full_tensor()), ranks.held(got.detach().to_local())
    with ranks.plain():
        texts = (
            checks.difference(name, wholes[rank], parts[rank], right.detach(), rank, got) for rank in wholes
        )
        return next(filter(None, texts), "")
