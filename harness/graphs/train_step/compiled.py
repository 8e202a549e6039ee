"""``CompiledStep`` keeps a train step's graphs and picks or traces the one that is valid for a call.

call -> arguments split -> checked -> a kept graph is valid? -> run it
                                      none is: trace, reduce, transform, keep, run
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.optim import Optimizer

from harness.errors import UsageError
from harness.graphs.train_step import checks, transformation, warm_up
from harness.graphs.train_step.call_arguments import StepCall, read_call
from harness.graphs.train_step.hyperparameters import lift_hyperparameters
from harness.graphs.train_step.overrides import Override, replace_modules
from harness.graphs.train_step.reads import describe_reads
from harness.graphs.train_step.reduction import Group, name_of_group
from harness.graphs.train_step.snapshots import GuardSnapshot, shown
from harness.graphs.train_step.state import (
    describe_lifted,
    describe_modes,
    describe_module,
    describe_optimizer,
    lift_state,
)
from harness.graphs.train_step.tracing import Returned, StepInputs, trace_step

GmTransformation = Callable[[GraphModule], GraphModule]


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments that ``compile`` was given."""

    overrides: Sequence[Override] = ()
    gm_transformation: GmTransformation | None = None
    group: Group = None
    bucket_mb: float | None = None
    warm_up: bool = False
    max_graphs: int = 8


@dataclass(slots=True)
class StepGraph:
    """One graph, and the snapshot of the call that it was traced for.

    ``flat_state`` are the tensors for its first placeholders. ``places`` has, for each of them, its index
    among the lifted tensors, from which it is taken anew in each call, or None for a tensor that an override
    added. ``free`` names the entries of the snapshot that may differ.
    """

    gm: GraphModule
    mod: nn.Module
    opt: Optimizer | None
    flat_state: list[Tensor]
    places: Sequence[int | None]
    returned: Returned
    snapshot: GuardSnapshot
    free: frozenset[str]

    def run(self, inputs: StepInputs) -> Any:
        """Runs the graph on the inputs of a call for which it is valid; returns what the step returns."""
        self.take(list(inputs.state.values()))
        given = [*self.flat_state, *inputs.call.tensors.values()]
        given += [each.value for each in inputs.hyperparameters]
        values = _without_autograd(self.gm, given)
        if len(values) != self.returned.count:
            raise UsageError(
                f"the graph returns {len(values)} values after its transformations, and the step "
                f"{self.returned.count}: an override has to keep the graph's output"
            )
        return self.returned.filled(values)

    def take(self, lifted: Sequence[Tensor]) -> None:
        """Makes the graph use these state tensors: loading a state dict may have replaced the others."""
        for index, place in enumerate(self.places):
            if place is not None:
                self.flat_state[index] = lifted[place]


def _without_autograd(gm: GraphModule, given: Sequence[Any]) -> list[Any]:
    """Runs a graph module so that autograd records nothing and autocast adds no casts to those in the graph.

    The inputs are detached instead of turning grad mode off: with grad mode off some operators
    (``mkldnn_rnn_layer``) leave out what only their backward reads, and that backward is in the graph
    (related: pytorch/pytorch#185163).
    """
    detached = [each.detach() if isinstance(each, Tensor) else each for each in given]
    own = {id(alias): each for alias, each in zip(detached, given, strict=True)}
    with torch.enable_grad(), ExitStack() as casts:
        for kind in {tensor.device.type for tensor in detached if isinstance(tensor, Tensor)}:
            casts.enter_context(torch.autocast(kind, enabled=False))
        return [own.get(id(value), value) for value in gm(*detached)]


@dataclass(slots=True)
class CompiledStep:
    """A compiled train step, called like the function itself. ``graphs`` are its graphs, the oldest first."""

    function: Callable[..., Any]
    options: Options
    graphs: list[StepGraph] = field(default_factory=list)
    _current: StepGraph | None = None
    _replaced: WeakSet[nn.Module] = field(default_factory=WeakSet)

    @property
    def gm(self) -> GraphModule:
        """The graph that ran last."""
        return self._last().gm

    @property
    def mod(self) -> nn.Module:
        """The module that was trained last."""
        return self._last().mod

    @property
    def opt(self) -> Optimizer | None:
        """The optimizer that was used last."""
        return self._last().opt

    @property
    def flat_state(self) -> list[Tensor]:
        """The parameters, buffers and optimizer state, which are the first inputs of the last-run graph."""
        return self._last().flat_state

    def _last(self) -> StepGraph:
        if self._current is None:
            raise UsageError("the step has no graph yet: call it first")
        return self._current

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one train step: by a graph that is valid for the call, or by a new one."""
        call = read_call(inspect.signature(self.function), args, kwargs)
        if call.module not in self._replaced:
            replace_modules(call.module, self.options.overrides)
            self._replaced.add(call.module)
        checks.check_module(call.module)
        checks.check_optimizer(call.module, call.optimizer)
        group_name = name_of_group(self.options.group)
        inputs = _inputs(call)
        snapshot = self._snapshot(inputs, group_name)
        fitting = self._fitting(snapshot)
        if fitting is not None:
            self._current = fitting
            return fitting.run(inputs)
        self._check_bound(snapshot)
        if self.options.warm_up and warm_up.is_needed(call.optimizer):
            result = warm_up.run_eagerly(self.function, call, group_name)
            inputs = _inputs(call)
            self._current = self._traced(inputs, self._snapshot(inputs, group_name), group_name)
            return result
        self._current = self._traced(inputs, snapshot, group_name)
        return self._current.run(inputs)

    def _fitting(self, snapshot: GuardSnapshot) -> StepGraph | None:
        """A kept graph that is valid for this snapshot, or None."""
        fitting = (g for g in self.graphs if not g.snapshot.differences(snapshot, ignored=g.free))
        return next(fitting, None)

    def _snapshot(self, inputs: StepInputs, group_name: str) -> GuardSnapshot:
        """A snapshot of all that a graph for this call depends on, beside the numbers in its tensors."""
        snapshot = GuardSnapshot()
        inputs.call.describe(snapshot)
        describe_lifted(inputs.state, snapshot)
        describe_module(inputs.module, snapshot)
        if inputs.optimizer is not None:
            describe_optimizer(inputs.module, inputs.optimizer, snapshot)
        describe_reads(self.function, inputs.call, snapshot)
        describe_modes(snapshot)
        snapshot.note("process group", group_name)
        return snapshot

    def _check_bound(self, snapshot: GuardSnapshot) -> None:
        if len(self.graphs) < self.options.max_graphs:
            return
        changed = shown(self.graphs[-1].snapshot.differences(snapshot, ignored=self.graphs[-1].free))
        raise UsageError(
            f"the step has {len(self.graphs)} graphs and this call fits none ({changed}): keep that the "
            "same, pass what changes as a tensor, or give compile(max_graphs=...)"
        )

    def _traced(self, inputs: StepInputs, snapshot: GuardSnapshot, group_name: str) -> StepGraph:
        traced = trace_step(self.function, inputs, group_name)
        state = list(inputs.state.values())
        rest = len(inputs.call.tensors) + len(inputs.hyperparameters)
        gm = transformation.prepare(traced.graph, self.options.bucket_mb)
        flat_state = list(state)
        gm = transformation.apply_overrides(gm, flat_state, rest, self.options.overrides)
        gm = transformation.apply_gm_transformation(
            gm, len(flat_state) + rest, self.options.gm_transformation
        )
        place = {id(tensor): index for index, tensor in enumerate(state)}
        graph = StepGraph(
            gm=gm,
            mod=inputs.module,
            opt=inputs.optimizer,
            flat_state=flat_state,
            places=[place.get(id(tensor)) for tensor in flat_state],
            returned=traced.returned,
            snapshot=snapshot,
            free=traced.free,
        )
        self.graphs.append(graph)
        return graph


def _inputs(call: StepCall) -> StepInputs:
    return StepInputs(call, lift_state(call.module, call.optimizer), lift_hyperparameters(call.optimizer))
