"""What one run of a function shows: outputs, inputs afterwards, gradients, and what writing to outputs does.

Gradients are those of each output, and of each input that the function wrote to: a caller may go on with it.

Two runs, eager and compiled, are observed in the same way and their ``Observation``s compared.
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

# Weights of an output's elements on the way to a gradient repeat after this many: a prime, so that rows
# of usual sizes get different ones. As quarters they are exact in every floating dtype.
WEIGHTS = 7


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything that the caller of a function can see at one moment, by name.

    ``around``: what lies around the inputs, of which the values count. ``error`` is what the step that led
    here raised.
    """

    label: str
    outputs: dict[str, TensorSnapshot]
    inputs: dict[str, TensorSnapshot]
    hidden: dict[str, TensorSnapshot]
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One run.

    ``before_call`` is the moment before the call, ``bound`` the names of what stood where.
    ``rebindings``: the places that hold another object since the call.
    ``plain`` holds the outputs that are no tensors. ``gradients`` are by output and leaf, and by input and
    leaf for the inputs that ``written`` names: those that the function wrote to, and whose backward ran.
    ``all_written``: there are no others that it wrote to.
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
        """The leaves that none of ``gradients`` arrived in."""
        reached = {leaf for (_, leaf), found in self.gradients.items() if found is not None}
        return [leaf for leaf in dict.fromkeys(leaf for _, leaf in self.gradients) if leaf not in reached]

    def computed_gradients(self) -> list[tuple[str, str]]:
        """The gradients, by output and leaf, through outputs that are more than views of inputs."""
        inputs = self.moments[0].inputs.keys()
        return [
            (output, leaf)
            for (output, leaf), found in self.gradients.items()
            if found is not None and not inputs & {output, *self.aliases[output].views}
        ]


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """What a function is run on: its arguments, and by name all tensors among or behind them.

    ``function`` is the one that the call is of; a module's tensors are among its inputs.
    ``inputs`` are the tensors that the function can write to; ``leaves`` those that gradients arrive in;
    ``around`` what else of theirs a faulty compiler can write to. ``places`` says what stands where in the
    arguments, and in a module, when it is called.
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
    """Run ``function`` on ``prepared``, then backward from each output, then with ``write`` write to each.

    ``written``: the inputs to run backward from as well. None: those that the function wrote to, where their
    backward runs. What the function or another backward raises comes through; what a write raises is part of
    the observation.
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
    """How often ``tensor`` or what it shares its memory with has been written to; an inference tensor or
    one without sizes: 0.
    """
    return 0 if is_lazy(tensor) or tensor.is_inference() else int(tensor._version)


def _computed_inputs(now: Moment, outputs: Sequence[Named], prepared: PreparedCall) -> list[Named]:
    """The inputs that a backward can start from, without those that are outputs too."""
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
    """The containers of ``value``; a tuple counts as a list: a compiled function returns lists for both."""
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
    """What each output alone sends back to each leaf."""
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
    """``_gradients``, without those inputs whose history a later write has made useless for a backward."""
    found: dict[tuple[str, str], TensorSnapshot | None] = {}
    for named in inputs:
        try:
            found |= _gradients([named], leaves)
        except RuntimeError:
            for _, leaf in leaves:
                leaf.grad = None
    return found


def _backward(output: torch.Tensor) -> None:
    """Backward from ``weighted_sum``; a DTensor's gradient has its placements, which a sum would not keep."""
    sharded = sharded_as(output, _weights(output)) if output.layout == torch.strided else None
    if sharded is None:
        weighted_sum(output).backward(retain_graph=True)
    else:
        output.backward(sharded, retain_graph=True)


def weighted_sum(output: torch.Tensor) -> torch.Tensor:
    """A real number whose gradient differs from element to element, so that none can stand for another."""
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
