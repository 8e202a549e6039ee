"""Traces one call of a train step: forward, backward, reduction and optimizer step become one graph.

The user's function is traced on fake tensors that replace the tensors of the module, the optimizer and the
call (see ``substitution.py``), so nothing is executed and nothing changes. Numbers that an optimizer reads
from its state, such as a step count, are symbols, so the graph computes with them bitwise as the optimizer
does. An optimizer that branches on such a number is traced again with ``capturable`` set, so that it computes
with tensors; the results then differ in the last bits of a float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # make_fx imports it at the first trace in each rank; related: pytorch/pytorch#162595
import torch._inductor.config
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.optim import Optimizer
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from harness.errors import UsageError
from harness.graphs.tracing_errors import DECISIONS
from harness.graphs.train_step import effects, hyperparameters, refusals
from harness.graphs.train_step.call_arguments import StepCall
from harness.graphs.train_step.hyperparameters import Hyperparameter
from harness.graphs.train_step.reads import describe_reads
from harness.graphs.train_step.reduction import reducing
from harness.graphs.train_step.snapshots import GuardSnapshot, is_plain
from harness.graphs.train_step.state import (
    describe_module,
    describe_optimizer,
    lift_state,
)
from harness.graphs.train_step.substitution import put_back_after, substitute

# Values of these types are computed by the graph; everything else that a step returns is a constant.
_OF_THE_GRAPH = (Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The inputs of a graph, in the order of its placeholders: state, tensor arguments, hyper-parameters."""

    call: StepCall
    state: Mapping[str, Tensor]
    hyperparameters: Sequence[Hyperparameter]

    @property
    def module(self) -> nn.Module:
        """The module that is trained."""
        return self.call.module

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer, if the step has one."""
        return self.call.optimizer


@dataclass(frozen=True, slots=True)
class Returned:
    """The structure of a step's return value, whose leaves are outputs of the graph or constants.

    ``leaves`` has a pair for each leaf: whether it comes from the graph, and the constant if it does not.
    """

    spec: TreeSpec
    leaves: Sequence[tuple[bool, Any]]

    @property
    def count(self) -> int:
        """The number of leaves that are outputs of the graph."""
        return sum(from_graph for from_graph, _ in self.leaves)

    def filled(self, values: Sequence[Any]) -> Any:
        """The step's return value, with ``values`` as the outputs of the graph."""
        rest = iter(values)
        leaves = [next(rest) if from_graph else constant for from_graph, constant in self.leaves]
        return tree_unflatten(leaves, self.spec)


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced graph, its return value, and the names of the hyper-parameters that may have any value."""

    graph: GraphModule
    returned: Returned
    free: frozenset[str]


def trace_step(function: Callable[..., Any], inputs: StepInputs, group_name: str) -> Traced:
    """Traces a call of ``function`` without executing anything.

    Raises UsageError for a step that cannot be a graph, or only one that could not be run again. Errors of
    the user's own code are raised unchanged.
    """
    with refusals.in_words():
        try:
            return _Trace(function, inputs, group_name, capturable=False).run()
        except DECISIONS as error:
            if not (refusals.made_by_optimizer(error) and _can_be_captured(inputs.optimizer)):
                raise
        return _Trace(function, inputs, group_name, capturable=True).run()


def _can_be_captured(optimizer: Optimizer | None) -> bool:
    return optimizer is not None and all("capturable" in group for group in optimizer.param_groups)


class _Trace:
    """One attempt to trace a step, with the optimizer in its plain or in its capturable form."""

    def __init__(
        self, function: Callable[..., Any], inputs: StepInputs, group_name: str, *, capturable: bool
    ) -> None:
        self._function, self._inputs, self._group_name = function, inputs, group_name
        self._capturable = capturable
        self._returned: Returned | None = None

    def run(self) -> Traced:
        inputs = self._inputs
        mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
        real = [*inputs.state.values(), *inputs.call.tensors.values()]
        fakes = [mode.from_tensor(tensor, static_shapes=True) for tensor in real]
        numbers = hyperparameters.stand_ins(inputs.hyperparameters, mode)
        symbols = [hyperparameters.symbol_of(number) for number in numbers]
        before = effects.generators()
        tracer = make_fx(self._step, tracing_mode="fake", _error_on_data_dependent_ops=False)
        with put_back_after(inputs.module, inputs.optimizer), self._as_captured():
            graph = tracer(*fakes, *numbers)
        effects.check_generators(before)
        assert self._returned is not None
        free = hyperparameters.undecided(inputs.hyperparameters, symbols, mode.shape_env)
        return Traced(graph, self._returned, free)

    @contextmanager
    def _as_captured(self) -> Iterator[None]:
        """Sets ``capturable`` in the param groups, if this attempt wants it, and pretends to be compiling.

        On the CPU optimizers refuse ``capturable`` unless ``torch.compiler.is_compiling()`` is true
        (pytorch/pytorch#124830, pytorch/pytorch#149722).
        """
        if not self._capturable:
            yield
            return
        assert self._inputs.optimizer is not None
        for group in self._inputs.optimizer.param_groups:
            group["capturable"] = True
        with mock.patch.object(torch.compiler, "is_compiling", lambda: True):
            yield

    def _step(self, *flat: Any) -> list[Any]:
        """The function that is traced: it takes flat tensors and numbers and returns a flat list."""
        inputs = self._inputs
        module, optimizer = inputs.module, inputs.optimizer
        count = len(inputs.state)
        tensors = flat[count : count + len(inputs.call.tensors)]
        substitute(module, optimizer, dict(zip(map(id, inputs.state.values()), flat[:count], strict=True)))
        if optimizer is not None:
            values = flat[count + len(tensors) :]
            hyperparameters.put_hyperparameters(optimizer, inputs.hyperparameters, values)
        lifted = lift_state(module, optimizer)
        storages, python_state = effects.storages(lifted), self._python_state()
        with reducing(module.parameters(), self._group_name):
            result = inputs.call.run(self._function, tensors)
        effects.check_storages(lifted, storages)
        effects.write_back(lifted, lift_state(module, optimizer))
        effects.check_python_state(python_state, self._python_state())
        return self._returned_by_graph(result)

    def _python_state(self) -> GuardSnapshot:
        snapshot = GuardSnapshot()
        describe_module(self._inputs.module, snapshot)
        if self._inputs.optimizer is not None:
            describe_optimizer(self._inputs.module, self._inputs.optimizer, snapshot)
        describe_reads(self._function, self._inputs.call, snapshot)
        return snapshot

    def _returned_by_graph(self, result: Any) -> list[Any]:
        leaves, spec = tree_flatten(result)
        marked = [(isinstance(leaf, _OF_THE_GRAPH), leaf) for leaf in leaves]
        for from_graph, leaf in marked:
            self._check_returned(from_graph, leaf)
        self._returned = Returned(spec, [(f, None if f else leaf) for f, leaf in marked])
        return [leaf for from_graph, leaf in marked if from_graph]

    def _check_returned(self, from_graph: bool, leaf: Any) -> None:
        if from_graph and isinstance(leaf, Tensor) and not isinstance(leaf, FakeTensor):
            raise UsageError(
                "the step returns a tensor that is neither computed by it nor an argument nor the module's"
            )
        known = (self._inputs.module, self._inputs.optimizer)
        if not from_graph and not is_plain(leaf) and not any(leaf is each for each in known):
            raise UsageError(
                f"the step returns a {type(leaf).__qualname__}: return tensors and plain values, in lists, "
                "tuples and dicts"
            )
