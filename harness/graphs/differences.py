"""Compares the observations of an eager and a compiled run, and describes each difference.

``differences`` lists all of them, each under the user's name of the output, input or gradient. No difference
hides another, but an output or input that differs is not reported again for later moments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.graphs.aliasing import Aliases
from harness.graphs.leaf_names import joined
from harness.graphs.observation import Moment, Observation
from harness.graphs.rebindings import Rebinding
from harness.graphs.snapshots import TensorSnapshot
from harness.tolerances import default_tolerances

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# Metadata that says where a tensor's data lies; a compiler may choose it for tensors that it makes.
PLACE = ("storage_offset", "storage_bytes")


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One difference: ``subject`` names the output, input or gradient, ``what`` says how it differs."""

    subject: str
    what: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerances as in ``torch.testing.assert_close``; None stands for its default for the dtype."""

    rtol: float | None = None
    atol: float | None = None


def differences(eager: Observation, compiled: Observation, tolerance: Tolerance) -> list[RunDifference]:
    """All differences between two observations of one function on equal inputs."""
    if eager.structure != compiled.structure:
        what = f"eager returned {eager.structure}, compiled {compiled.structure}"
        return [RunDifference("the outputs' structure", what)]
    found = list(_plain(eager, compiled))
    # Hidden memory of inputs that a callable makes may be uninitialised, and so differ from the start.
    seen = {name for name, _ in _hidden_differences(eager.before_call, compiled.before_call, tolerance)}
    of_compiled = {moment.label: moment for moment in compiled.moments}
    for moment in eager.moments:
        if moment.label not in of_compiled:
            continue  # the compiled output is not a tensor, which ``_plain`` has reported
        other = of_compiled[moment.label]
        fresh = [d for d in _moments(moment, other, eager, tolerance) if d.subject not in seen]
        found += fresh
        seen |= {difference.subject for difference in fresh}
    found += _rebinding_differences(eager, compiled, tolerance)
    found += _aliases(eager, compiled)
    found += _gradients(eager, compiled, tolerance)
    return found


def _plain(eager: Observation, compiled: Observation) -> Iterator[RunDifference]:
    for name in sorted(eager.plain.keys() | compiled.plain.keys()):
        if name not in eager.plain or name not in compiled.plain:
            said = [repr(run.plain[name]) if name in run.plain else "a tensor" for run in (compiled, eager)]
            yield RunDifference(name, f"{said[0]} compiled, {said[1]} in eager")
            continue
        one, other = eager.plain[name], compiled.plain[name]
        same = one == other or (one != one and other != other)  # a nan is not even itself
        if type(one) is not type(other) or not same:
            yield RunDifference(name, f"{other!r} compiled, {one!r} in eager")


def _moments(
    eager: Moment, compiled: Moment, run: Observation, tolerance: Tolerance
) -> Iterator[RunDifference]:
    if type(eager.error) is not type(compiled.error):
        yield RunDifference(eager.label.removeprefix("after "), _errors(eager.error, compiled.error))
    first = eager.label == run.moments[0].label
    when = "" if first else f" {eager.label}"
    for name, snapshot in eager.outputs.items():
        if name in compiled.outputs:
            placed = bool(run.aliases[name].memory)
            for what in different(snapshot, compiled.outputs[name], tolerance, placed=placed):
                yield RunDifference(name, what + when)
    when = when or " after the call"
    found = list(_of_inputs(eager, compiled, tolerance))
    yield from (
        RunDifference(name, what + when)
        for name, what in found or _hidden_differences(eager, compiled, tolerance)
    )


def _of_inputs(eager: Moment, compiled: Moment, tolerance: Tolerance) -> Iterator[tuple[str, str]]:
    for name, snapshot in eager.inputs.items():
        if name not in compiled.inputs:
            yield name, "has no sizes yet compiled"
            continue
        for what in different(snapshot, compiled.inputs[name], tolerance):
            yield name, what


def _hidden_differences(eager: Moment, compiled: Moment, tolerance: Tolerance) -> Iterator[tuple[str, str]]:
    """The differences in hidden tensors, as (name, text).

    Hidden tensors share memory with inputs, so that they differ wherever inputs do; ask if no input differs.
    """
    for name, snapshot in eager.hidden.items():
        if name in compiled.hidden:
            for what in different_values(snapshot, compiled.hidden[name], tolerance):
                yield name, what


def _rebinding_differences(
    eager: Observation, compiled: Observation, tolerance: Tolerance
) -> Iterator[RunDifference]:
    for name in sorted(eager.rebindings.keys() | compiled.rebindings.keys()):
        one, other = eager.rebindings.get(name), compiled.rebindings.get(name)
        known = name in eager.bound
        said = [_described_rebinding(held, known) for held in (other, one)]
        if said[0] != said[1]:
            yield RunDifference(name, f"is {said[0]} compiled, {said[1]} in eager")
        elif (
            one is not None and other is not None and one.snapshot is not None and other.snapshot is not None
        ):
            for what in different(one.snapshot, other.snapshot, tolerance, placed=bool(one.memory)):
                yield RunDifference(f"{name}, which is another tensor than before", what)


def _described_rebinding(held: Rebinding | None, known: bool) -> str:
    """The content of a place after the call; ``known`` says whether the place existed before the call."""
    if held is None:
        return "what it was" if known else "not there"
    if held.gone:
        return "gone"
    if held.snapshot is None:
        return repr(held.value)
    tensor = "another tensor" if known else "a new tensor"
    return f"{tensor} that shares memory with {joined(held.memory)}" if held.memory else tensor


def _errors(eager: Exception | None, compiled: Exception | None) -> str:
    def said(error: Exception | None) -> str:
        return "nothing" if error is None else f"{type(error).__name__}: {error}"

    return f"raised {said(compiled)} compiled, {said(eager)} in eager"


def _aliases(eager: Observation, compiled: Observation) -> Iterator[RunDifference]:
    inputs = eager.moments[0].inputs.keys()
    for name, wanted in eager.aliases.items():
        if name in compiled.aliases:
            yield from _aliases_of(name, wanted, compiled.aliases[name], inputs)


def _aliases_of(
    name: str, eager: Aliases, compiled: Aliases, inputs: Collection[str]
) -> Iterator[RunDifference]:
    """The differences in aliasing of one output.

    A compiled function returns an input as the same object, but every other output as a separate object. So
    if eager returns one object twice, the view relation between the two is not compared.
    """
    twice = {other for other in eager.same if other not in inputs}
    for wanted, got, verb in (
        (eager.memory, compiled.memory, "shares memory with"),
        (
            _without(eager.views, twice),
            _without(compiled.views, twice),
            "is a view of, or of the same base as,",
        ),
        (_only(eager.same, inputs), _only(compiled.same, inputs), "is the object of"),
    ):
        if wanted != got:
            yield RunDifference(name, f"{verb} {joined(got)} compiled, {joined(wanted)} in eager")


def _only(names: Iterable[str], kept: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in kept)


def _without(names: Iterable[str], left_out: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in left_out)


def _gradients(eager: Observation, compiled: Observation, tolerance: Tolerance) -> Iterator[RunDifference]:
    """The differences in the gradients of each leaf through each output and each written input.

    A compiled backward computes the gradients of all its inputs through all its outputs at once, so that
    zeros are accepted where eager has no gradient (pytorch/torchdynamo#1102, pytorch/pytorch#58511). They are
    not accepted for a leaf that has no gradient through anything in eager: an optimizer skips a parameter
    whose gradient is None, but not one whose gradient is zero.
    """
    for leaf in eager.leaves_without_gradient():
        if eager.all_written and leaf not in compiled.leaves_without_gradient():
            yield RunDifference(
                f"gradient of {leaf}", "there is one compiled, none through anything in eager"
            )
    for output, leaf in eager.gradients:
        one, other = eager.gradients[output, leaf], compiled.gradients.get((output, leaf))
        source = f"the written {output}" if output in eager.written else output
        subject = f"gradient of {leaf} through {source}"
        if one is None or other is None:
            if one is not other and not _is_zero(other):
                yield RunDifference(subject, f"there is none {'compiled' if other is None else 'in eager'}")
            continue
        for what in different(one, other, tolerance, placed=False):
            yield RunDifference(subject, what)


def _is_zero(snapshot: TensorSnapshot | None) -> bool:
    """Whether there is a gradient and all its elements are zero."""
    if snapshot is None:
        return False
    if snapshot.values is None:
        return bool(snapshot.parts) and all(map(_is_zero, snapshot.parts.values()))
    return not snapshot.values.any()


def different(
    eager: TensorSnapshot, compiled: TensorSnapshot, tolerance: Tolerance, *, placed: bool = True
) -> Iterator[str]:
    """Describe the differences between two snapshots, one text per difference.

    ``placed``: whether the storage offset and the size of the storage are compared as well.
    """
    yield from _metadata(eager, compiled, placed, "")
    yield from different_values(eager, compiled, tolerance)


def _metadata(eager: TensorSnapshot, compiled: TensorSnapshot, placed: bool, path: str) -> Iterator[str]:
    """The differences in metadata; ``path`` leads to a part of a wrapper subclass."""
    at = _at(path)
    for key, wanted in eager.metadata.items():
        got = compiled.metadata.get(key)
        if wanted != got and (placed or key not in PLACE):
            yield f"{at}{key} {_said(got)} compiled, {_said(wanted)} in eager"
    if eager.context != compiled.context:
        yield f"{at}context {compiled.context!r} compiled, {eager.context!r} in eager"
    for name in eager.parts.keys() & compiled.parts.keys():
        yield from _metadata(eager.parts[name], compiled.parts[name], placed, f"{path}.{name}")


def different_values(
    eager: TensorSnapshot, compiled: TensorSnapshot, tolerance: Tolerance, path: str = ""
) -> Iterator[str]:
    """The differences in values alone; tensors of different shapes are not compared."""
    for name in eager.parts.keys() & compiled.parts.keys():
        yield from different_values(eager.parts[name], compiled.parts[name], tolerance, f"{path}.{name}")
    if eager.metadata["shape"] == compiled.metadata["shape"]:
        said = _values(eager.values, compiled.values, tolerance)
        if said is not None:
            yield _at(path) + said


def _at(path: str) -> str:
    return f"its part {path} has " if path else ""


def _said(value: Any) -> str:
    return value.__qualname__ if isinstance(value, type) else str(value).removeprefix("torch.")


def _values(eager: torch.Tensor | None, compiled: torch.Tensor | None, tolerance: Tolerance) -> str | None:
    if eager is None or compiled is None:
        if eager is compiled:
            return None
        return "has no data compiled" if compiled is None else "has no data in eager"
    if eager.dtype != compiled.dtype or eager.device != compiled.device:
        compiled = compiled.to(eager.device, eager.dtype)
    apart = ~_close(compiled, eager, tolerance)
    if not apart.any():
        return None
    places = apart.nonzero()
    index = tuple(places[0].tolist())
    where = f"at {list(index)} " if index else ""
    said = f"values differ: {where}{compiled[index].item()!r} compiled, {eager[index].item()!r} in eager"
    return said if eager.numel() == 1 else f"{said} ({len(places)} of {eager.numel()} elements)"


def _close(compiled: torch.Tensor, eager: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    if torch.equal(compiled, eager):
        return torch.ones_like(eager, dtype=torch.bool)
    rtol, atol = tolerances(eager.dtype, tolerance)
    return torch.isclose(compiled, eager, rtol=rtol, atol=atol, equal_nan=True)


def tolerances(dtype: torch.dtype, tolerance: Tolerance) -> tuple[float, float]:
    """The relative and the absolute tolerance for values of ``dtype``."""
    if tolerance.rtol is not None and tolerance.atol is not None:
        return tolerance.rtol, tolerance.atol
    return default_tolerances(str(dtype).removeprefix("torch."))
