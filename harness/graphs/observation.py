"""``observe`` runs a function once and records all that its caller can see, as an ``Observation``.

Recorded are the outputs, the inputs after the call, the gradients, and the effects of writes to the outputs.
Gradients are taken through each output, and through each input that the function wrote to, since a caller may
go on computing with it. An eager and a compiled run are observed alike, and their observations compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_structure

from harness.graphs.aliasing import Aliases, Named, aliases_of
from harness.graphs.leaf_names import named_outputs
from harness.graphs.rebindings import Rebinding, rebindings
from harness.graphs.snapshots import TensorSnapshot, snapshot, snapshots
from harness.graphs.subclasses import sharded_as

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# The weights of an output's elements repeat after this many elements: a prime, so that the rows of usual
# sizes get different weights. The weights are multiples of 1/4, which every floating dtype holds exactly.
WEIGHTS = 7


@dataclass(frozen=True, slots=True)
class Moment:
    """Snapshots of all tensors that the caller can see at one moment, by name.

    ``hidden`` are the tensors of ``hidden_memory``, of which only the values are compared. ``error`` is what
    the write that led to this moment raised.
    """

    label: str
    outputs: dict[str, TensorSnapshot]
    inputs: dict[str, TensorSnapshot]
    hidden: dict[str, TensorSnapshot]
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """The record of one run.

    ``before_call`` is the moment before the call. ``bound`` are the names of the places, in the arguments and
    in a module, that held an object then, and ``rebindings`` the places that hold another object after the
    call. ``plain`` are the outputs that are not tensors. ``gradients`` are by output and leaf, and by input
    and leaf for the inputs that ``written`` names: those that the function wrote to and whose backward ran.
    ``all_written``: it wrote to no other inputs that a backward could start from.
    """

    before_call: Moment
    bound: Collection[str]
    rebindings: dict[str, Rebinding]
    structure: Any
    plain: dict[str, Any]
    aliases: dict[str, Aliases]
    moments: tuple[Moment, ...]
    gradients: dict[tuple[str, str], TensorSnapshot | None]
    written: tuple[str, ...]
    all_written: bool
    returned: Any

    def leaves_without_gradient(self) -> list[str]:
        """The leaves that received no gradient through any output or written input."""
        reached = {leaf for (_, leaf), found in self.gradients.items() if found is not None}
        return [leaf for leaf in dict.fromkeys(leaf for _, leaf in self.gradients) if leaf not in reached]

    def computed_gradients(self) -> list[tuple[str, str]]:
        """The (output, leaf) pairs with a gradient, without outputs that are inputs or views of inputs."""
        inputs = self.moments[0].inputs.keys()
        return [
            (output, leaf)
            for (output, leaf), found in self.gradients.items()
            if found is not None and not inputs & {output, *self.aliases[output].views}
        ]


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A function with the arguments for one call of it, and all tensors that are observed in it, by name.

    ``function`` is the user's function or the copy of a module. ``inputs`` are the tensors that it can write
    to, a module's own included. ``leaves`` are those that receive gradients. ``hidden`` are other tensors
    that a faulty compiler can write to. ``bindings`` returns the objects in the arguments' containers and in
    a module, by name, at the time of the call to it.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any]
    inputs: Sequence[Named]
    leaves: Sequence[Named]
    hidden: Sequence[Named] = ()
    bindings: Callable[[], dict[str, Any]] = dict


def observe(
    function: Callable[..., Any],
    prepared: PreparedCall,
    *,
    write: bool,
    written: Collection[str] | None = None,
) -> Observation:
    """Run ``function`` on the prepared arguments, then backward from each output.

    With ``write``, each output is written to afterwards.

    ``written``: the names of the inputs to run backward from as well; None: those that the function wrote to,
    if their backward runs. Errors of the function or of other backwards are raised; an error of a write is
    part of the observation.
    """
    versions = {name: _version(tensor) for name, tensor in prepared.inputs}
    bound = prepared.bindings()
    before_call = _moment("before the call", [], prepared)
    returned = function(*prepared.arguments)
    leaves = named_outputs(returned)
    outputs = [(name, value) for name, value in leaves if isinstance(value, torch.Tensor)]
    aliases = aliases_of(prepared.inputs, outputs)
    rebound = rebindings(bound, prepared.bindings(), prepared.inputs, outputs)
    moments = [_moment("after the call", outputs, prepared)]
    gradients = _gradients(outputs, prepared.leaves)
    computed = _computed_inputs(moments[0], outputs, prepared)
    candidates = [(name, tensor) for name, tensor in computed if versions[name] != _version(tensor)]
    if written is None:
        through = _gradients_of_those_that_run(candidates, prepared.leaves)
    else:
        through = _gradients([each for each in computed if each[0] in written], prepared.leaves)
    gradients |= through
    written = tuple(dict.fromkeys(name for name, _ in through))
    moments.append(_moment("after the backward", outputs, prepared))
    if write:
        moments += [_written(name, output, outputs, prepared) for name, output in outputs]
    return Observation(
        before_call=before_call,
        bound=bound.keys(),
        rebindings=rebound,
        structure=_structure(returned),
        plain={name: value for name, value in leaves if not isinstance(value, torch.Tensor)},
        aliases=aliases,
        moments=tuple(moments),
        gradients=gradients,
        written=written,
        all_written={name for name, _ in candidates} <= set(written),
        returned=returned,
    )


def _version(tensor: torch.Tensor) -> int:
    """How often ``tensor`` or a tensor in its memory was written to; 0 for inference and lazy tensors."""
    return 0 if is_lazy(tensor) or tensor.is_inference() else int(tensor._version)


def _computed_inputs(now: Moment, outputs: Sequence[Named], prepared: PreparedCall) -> list[Named]:
    """The inputs that a backward can start from, except those that are also outputs."""
    returned = {id(tensor) for _, tensor in outputs}
    return [
        (name, tensor)
        for name, tensor in prepared.inputs
        if id(tensor) not in returned
        and name in now.inputs
        and (now.inputs[name].metadata["requires_grad"], now.inputs[name].metadata["is_leaf"])
        == (True, False)
    ]


def _structure(value: Any) -> Any:
    """The containers of ``value``. A tuple counts as a list: a compiled function returns lists for both."""
    if type(value) in (list, tuple):
        return [_structure(item) for item in value]
    if isinstance(value, dict):
        return {key: _structure(item) for key, item in value.items()}
    return str(tree_structure(value))


def _moment(
    label: str, outputs: Sequence[Named], prepared: PreparedCall, error: Exception | None = None
) -> Moment:
    return Moment(label, snapshots(outputs), snapshots(prepared.inputs), snapshots(prepared.hidden), error)


def _gradients(
    outputs: Sequence[Named], leaves: Sequence[Named]
) -> dict[tuple[str, str], TensorSnapshot | None]:
    """The gradient of each leaf through each output alone."""
    found: dict[tuple[str, str], TensorSnapshot | None] = {}
    for name, output in outputs:
        if output.requires_grad:
            _backward(output)
            for leaf_name, leaf in leaves:
                found[name, leaf_name] = None if leaf.grad is None else snapshot(leaf.grad)
                leaf.grad = None
    return found


def _gradients_of_those_that_run(
    inputs: Sequence[Named], leaves: Sequence[Named]
) -> dict[tuple[str, str], TensorSnapshot | None]:
    """``_gradients``, without the inputs whose backward fails since a write has changed a saved tensor."""
    found: dict[tuple[str, str], TensorSnapshot | None] = {}
    for named in inputs:
        try:
            found |= _gradients([named], leaves)
        except RuntimeError:
            for _, leaf in leaves:
                leaf.grad = None
    return found


def _backward(output: torch.Tensor) -> None:
    """Backward from ``weighted_sum``; from a DTensor directly, since a sum would lose its placements."""
    sharded = sharded_as(output, _weights(output)) if output.layout == torch.strided else None
    if sharded is None:
        weighted_sum(output).backward(retain_graph=True)
    else:
        output.backward(sharded, retain_graph=True)


def weighted_sum(output: torch.Tensor) -> torch.Tensor:
    """A real number whose gradient differs from element to element, so that swapped ones are noticed."""
    if output.layout != torch.strided:
        return output.sum()
    total = (output * _weights(output)).sum()
    return total.real + 2 * total.imag if total.is_complex() else total


def _weights(output: torch.Tensor) -> torch.Tensor:
    weights = torch.arange(output.numel(), device=output.device) % WEIGHTS + 1
    return (weights.reshape(output.shape) / 4).to(output.dtype)


def _written(name: str, output: torch.Tensor, outputs: Sequence[Named], prepared: PreparedCall) -> Moment:
    error: Exception | None = None
    try:
        output.mul_(2)
    except RuntimeError as raised:
        error = raised
    return _moment(f"after writing to {name}", outputs, prepared, error)
