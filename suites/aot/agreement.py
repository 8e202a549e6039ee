"""A call in eager mode and through AOTAutograd, side by side: the judge of the operator and module sweeps.

``Call`` is a call as a function of its tensors. ``check_call`` compiles it once and compares twice: on the
given values, and on random ones, which tell a graph that computes from one that has a value baked in, and
outputs of their own from memory that is handed out again. What is observed and how it is compared is the
verifier's (``harness.graphs``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._functorch import config
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils._pytree import tree_flatten, tree_unflatten

from harness.graphs.call_checks import FirstOutputs
from harness.graphs.differences import RunDifference, Tolerance, differences
from harness.graphs.fresh_inputs import FreshInputs
from harness.graphs.observation import Observation, observe
from harness.seeding import seed_all

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: Seeds what a function draws itself, the same on both sides, and the second values.
DRAWS, VALUES = 42, 43


@dataclass(frozen=True, slots=True)
class Call:
    """A call as ``function(*tensors)``; its other arguments are fixed."""

    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]

    @classmethod
    def of(cls, target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """``target(*args, **kwargs)``; the containers among the arguments may hold tensors at any depth."""
        leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        fixed = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

        def function(*tensors: torch.Tensor) -> Any:
            filled = list(fixed)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            args, kwargs = tree_unflatten(filled, spec)
            return target(*args, **kwargs)

        return cls(function, tuple(leaves[place] for place in places))

    def with_random_values(self) -> Call:
        """The same call with its floating point tensors drawn anew, from [0, 1)."""
        seed_all(VALUES)
        return replace(self, tensors=tuple(map(_redrawn, self.tensors)))


def _redrawn(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.dtype.is_floating_point:
        return tensor
    return tensor.detach().clone().uniform_(0, 1).requires_grad_(tensor.requires_grad)


@dataclass(slots=True)
class Counted:
    """A function through AOTAutograd, with compilers that run the graphs as they are, and count.

    ``graphs`` and ``runs`` count by role: forward, inference, backward. A function that was not compiled, or
    whose graphs are not what runs, agrees with eager mode as well.
    """

    function: Callable[..., Any]
    partitioner: Callable[..., Any]
    dynamic: bool
    num_params_buffers: int
    graphs: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)

    def compiled(self) -> Callable[..., Any]:
        """The function, compiled at its first call."""
        return aot_function(
            self.function,
            fw_compiler=self._counting("forward"),
            bw_compiler=self._counting("backward"),
            inference_compiler=self._counting("inference"),
            partition_fn=self.partitioner,
            num_params_buffers=self.num_params_buffers,
            keep_inference_input_mutations=True,
            dynamic=self.dynamic,
        )

    def _counting(self, role: str) -> Callable[..., Any]:
        def compiler(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            self.graphs[role] += 1

            def run(inputs: list[Any]) -> Any:
                self.runs[role] += 1
                return graph(*inputs)

            run._boxed_call = True
            return run

        return compiler


def check_call(
    call: Call,
    *,
    dynamic: bool,
    partitioner: Callable[..., Any] = min_cut_rematerialization_partition,
    num_params_buffers: int = 0,
    tolerance: Tolerance | None = None,
    compare_values: bool = True,
) -> None:
    """Raise AssertionError unless the call compiled ahead of time does all that it does in eager mode.

    ``dynamic``: sizes are symbolic. ``num_params_buffers``: so many of the first tensors are a module's own.
    ``compare_values``: off for what is not initialised. On random values it is compared if eager mode takes
    those. What eager mode raises on the given values comes through, and what the compiler raises.
    """
    counted = Counted(call.function, partitioner, dynamic, num_params_buffers)
    judge = _Judge(tolerance or Tolerance(), compare_values)
    # Backward is run for each output, and what is donated to it serves a single run.
    with config.patch(debug_assert=True, donated_buffer=False):
        _check_call(call, counted, judge)


def _check_call(call: Call, counted: Counted, judge: _Judge) -> None:
    compiled = counted.compiled()
    eager, first = _observed(call, call.function), _observed(call, compiled)
    judge.check(eager, first)
    _check_counts(counted, calls=1)
    if not call.tensors:
        return
    outputs = FirstOutputs(eager, first)
    call = call.with_random_values()
    try:
        eager = _observed(call, call.function)
    except Exception:  # noqa: BLE001 - the function asks something of its values, and may say so as it likes
        return
    second = _observed(call, compiled)
    judge.check(eager, second, outputs.touched_by(second, "second"))
    _check_counts(counted, calls=2)


def _observed(call: Call, function: Callable[..., Any]) -> Observation:
    prepared = FreshInputs(call.tensors).prepare(call.function)
    seed_all(DRAWS)
    return observe(function, prepared, write=False)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Says what differs."""

    tolerance: Tolerance
    compare_values: bool

    def check(self, eager: Observation, compiled: Observation, more: Iterable[RunDifference] = ()) -> None:
        """AssertionError with all differences, ``more`` among them, a line each."""
        found = [each for each in differences(eager, compiled, self.tolerance) if self._counts(each)]
        found += more
        if found:
            raise AssertionError("compiled differs from eager:\n" + "\n".join(f"  {each}" for each in found))

    def _counts(self, difference: RunDifference) -> bool:
        return self.compare_values or not difference.what.startswith("values differ")


def _check_counts(counted: Counted, calls: int) -> None:
    """AssertionError unless each call ran the one graph that there is, and its backward if it has one."""
    graphs, runs = counted.graphs, counted.runs
    told = f"compiled were {dict(graphs)}, run {dict(runs)} in {calls} calls"
    assert graphs["forward"] + graphs["inference"] == 1, told
    assert runs["forward"] + runs["inference"] == calls, told
    assert bool(runs["backward"]) == bool(graphs["forward"]), told
