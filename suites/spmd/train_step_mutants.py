"""Faults of the train-step tracer: what a tracer of one's own gets wrong, one at a time.

The tracer is this project's, so its faults are planted in its own pieces (``harness/graphs/train_step``).
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.fx import GraphModule

from harness.graphs.train_step import compiled as steps
from harness.graphs.train_step import hyperparameters, overrides, reduction
from suites.planting import Mutant, Touch, replacing, switched

TRACER = "harness.graphs.train_step"
SUMMED = f"{TRACER}.reduction:summed"
FITTING = f"{TRACER}.compiled:CompiledStep._fitting"
LIFT = f"{TRACER}.compiled:lift_hyperparameters"

# -- communication


def _ranks(name: str) -> int:
    return dist.distributed_c10d._resolve_process_group(name).size()


def _several_ranks(gradient: Tensor, group_name: str) -> bool:
    return _ranks(group_name) > 1


def _local(original, gradient, group_name):
    return gradient.clone()


def _times_ranks(original, gradient, group_name):
    return gradient * _ranks(group_name)


def _average(original, gradient, group_name):
    return original(gradient, group_name) / _ranks(group_name)


def _twice(original, gradient, group_name):
    return original(original(gradient, group_name), group_name)


def _maximum(original, gradient, group_name):
    result = torch.ops._c10d_functional.all_reduce(gradient, "max", group_name)
    return torch.ops._c10d_functional.wait_tensor(result)


def _all_but_first(original, parameters, group_name):
    return original([each for each in parameters if each.requires_grad][1:], group_name)


def _default_group(original, group):
    return original(None)


def _another_group(group=None, *_):
    return group is not None and reduction.name_of_group(group) != reduction.name_of_group(None)


def _buffers_too(original, call, function, tensors):
    name = reduction.name_of_group(None)
    with reduction.reducing(call.module.buffers(), name):
        return original(call, function, tensors)


def _has_buffers_with_gradients(call, *_):
    return any(buffer.requires_grad for buffer in call.module.buffers())


COMMUNICATION = (
    replacing("tracer_never_communicates", "gradients stay local", SUMMED, _local, _several_ranks),
    replacing(
        "tracer_multiplies_by_ranks",
        "gradients are multiplied by the number of ranks instead of summed",
        SUMMED,
        _times_ranks,
        _several_ranks,
    ),
    replacing("tracer_averages", "gradients are averaged", SUMMED, _average, _several_ranks),
    replacing("tracer_reduces_twice", "gradients are summed twice", SUMMED, _twice, _several_ranks),
    replacing("tracer_takes_maximum", "gradients are the ranks' maximum", SUMMED, _maximum, _several_ranks),
    replacing(
        "tracer_skips_a_parameter",
        "the first parameter's gradient stays local",
        [f"{TRACER}.tracing:reducing", f"{TRACER}.warm_up:reducing"],
        _all_but_first,
    ),
    replacing(
        "tracer_ignores_group",
        "gradients are summed over all ranks whatever the group",
        f"{TRACER}.compiled:name_of_group",
        _default_group,
        _another_group,
    ),
    replacing(
        "tracer_reduces_buffers",
        "buffers' gradients are summed as well",
        f"{TRACER}.call_arguments:StepCall.run",
        _buffers_too,
        _has_buffers_with_gradients,
    ),
)

# -- buckets


def _forget_the_last(original, gm, reduces):
    *others, last = reduces
    wait = next(iter(last.users))
    wait.replace_all_uses_with(last.args[0])
    gm.graph.erase_node(wait)
    gm.graph.erase_node(last)
    if len(others) > 1:
        original(gm, others)


def _alone(original, gm, bucket_mb):
    return None


BUCKETS = (
    replacing(
        "bucket_forgets_a_gradient",
        "the last gradient of a bucket stays local",
        f"{TRACER}.bucketing:_merge",
        _forget_the_last,
    ),
    replacing(
        "never_buckets",
        "gradients are summed one by one",
        f"{TRACER}.transformation:bucket_all_reduces",
        _alone,
    ),
)

# -- what a graph is right for


def _first_graph(original, step, snapshot):
    return step.graphs[0] if step.graphs else None


def _first_is_wrong(step, snapshot):
    graphs = step.graphs
    return bool(graphs) and bool(graphs[0].snapshot.differences(snapshot, ignored=graphs[0].free))


def _one_fits(step, snapshot):
    return any(not each.snapshot.differences(snapshot, ignored=each.free) for each in step.graphs)


def _no_graph(original, step, snapshot):
    return None


def _old_state(original, graph, lifted):
    return None


def _other_state(graph, lifted):
    pairs = zip(graph.flat_state, graph.places, strict=True)
    return any(place is not None and tensor is not lifted[place] for tensor, place in pairs)


#: What an optimizer's hyper-parameters were when they were first lifted.
_first_lifted: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _copied(lifted):
    return tuple(
        dataclasses.replace(each, value=each.value.clone()) if isinstance(each.value, Tensor) else each
        for each in lifted
    )


def _rates_change(optimizer):
    if optimizer is None:
        return False
    now = hyperparameters.lift_hyperparameters(optimizer)
    first = _first_lifted.setdefault(optimizer, _copied(now))
    return [float(each.value) for each in now] != [float(each.value) for each in first]


def _first_rates(original, optimizer):
    return _first_lifted[optimizer]


def _groups_differ(optimizer):
    rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group] if optimizer else []
    return len(set(rates)) > 1


def _rate_of_first_group(original, optimizer):
    lifted = original(optimizer)
    first = next(each.value for each in lifted if each.key == "lr")
    return tuple(dataclasses.replace(each, value=first) if each.key == "lr" else each for each in lifted)


#: The calls that graphs were run with first.
_first_calls: weakref.WeakKeyDictionary[GraphModule, Any] = weakref.WeakKeyDictionary()


def _ran_before(graph, inputs):
    ran = graph.gm in _first_calls
    if not ran:
        tensors = {name: tensor.clone() for name, tensor in inputs.call.tensors.items()}
        _first_calls[graph.gm] = dataclasses.replace(inputs.call, tensors=tensors)
    return ran and bool(inputs.call.tensors)


def _first_inputs(original, graph, inputs):
    return original(graph, dataclasses.replace(inputs, call=_first_calls[graph.gm]))


VALIDITY = (
    replacing("ignores_guards", "the first graph is always run", FITTING, _first_graph, _first_is_wrong),
    replacing("never_reuses", "each call is traced", FITTING, _no_graph, _one_fits),
    replacing(
        "keeps_old_state",
        "the graph works on the state that was there when it was traced",
        f"{TRACER}.compiled:StepGraph.take",
        _old_state,
        _other_state,
    ),
    replacing("stale_learning_rate", "the first learning rate stays", LIFT, _first_rates, _rates_change),
    replacing(
        "one_rate_for_all_groups",
        "all param groups have the learning rate of the first",
        LIFT,
        _rate_of_first_group,
        _groups_differ,
    ),
    replacing(
        "replays_first_inputs",
        "the graph runs on the first call's arguments",
        f"{TRACER}.compiled:StepGraph.run",
        _first_inputs,
        _ran_before,
    ),
)

# -- what a step does to state


@contextmanager
def _stepping_twice(optimizer: Any) -> Iterator[None]:
    once = optimizer.step

    def twice(*args: Any, **kwargs: Any) -> Any:
        once(*args, **kwargs)
        return once(*args, **kwargs)

    optimizer.step = twice
    try:
        yield
    finally:
        del optimizer.step


def _step_twice(original, call, function, tensors):
    with _stepping_twice(call.optimizer):
        return original(call, function, tensors)


def _has_optimizer(call, *_):
    return call.optimizer is not None


def _run_for_real_first(original, function, inputs, group_name):
    inputs.call.run(function, list(inputs.call.tensors.values()))
    for parameter in inputs.module.parameters():
        parameter.grad = None
    return original(function, inputs, group_name)


def _trains(function, inputs, *_):
    return inputs.optimizer is not None


def _no_write_back(original, before, after):
    return None


def _rebound(before, after):
    return any(name in before and tensor is not before[name] for name, tensor in after.items())


def losing(name: str, what: str, prefix: str) -> Mutant:
    """A mutant whose graphs leave the lifted tensors of one kind as they were; touched where they changed."""

    def wrap(touch: Touch, *, lose: bool) -> None:
        original: Callable[..., Any] = steps.StepGraph.run

        def run(graph: Any, inputs: Any) -> Any:
            kept = {n: t.detach().clone() for n, t in inputs.state.items() if n.startswith(prefix)}
            result = original(graph, inputs)
            for n, before in kept.items():
                if not torch.equal(before, inputs.state[n]):
                    touch()
                    if lose:
                        inputs.state[n].detach().copy_(before)
            return result

        steps.StepGraph.run = run  # type: ignore[method-assign]  # planted for the life of the process

    return Mutant(name, what, lambda touch: wrap(touch, lose=True), lambda touch: wrap(touch, lose=False))


STATE = (
    replacing(
        "steps_optimizer_twice",
        "the optimizer steps twice on one gradient",
        f"{TRACER}.call_arguments:StepCall.run",
        _step_twice,
        _has_optimizer,
    ),
    replacing(
        "executes_while_tracing",
        "tracing executes the step as well",
        f"{TRACER}.compiled:trace_step",
        _run_for_real_first,
        _trains,
    ),
    replacing(
        "loses_rebound_state",
        "what a step assigns to a buffer or to optimizer state is lost",
        f"{TRACER}.effects:write_back",
        _no_write_back,
        _rebound,
    ),
    losing("loses_buffers", "buffers do not change", "buffer "),
    losing("loses_optimizer_state", "the optimizer's state does not change", "optimizer state "),
    losing("loses_parameters", "parameters do not change", "parameter "),
)

# -- what users make of a graph


def _as_it_is(original, gm, who):
    return gm


def _was_changed(gm, who):
    return isinstance(gm, GraphModule) and gm.code != gm.graph.python_code("self").src


def _untransformed(original, gm, flat_state, rest, chain):
    return gm


def _has_overrides(gm, flat_state, rest, chain):
    return bool(chain)


def _keep_modules(touch: Touch, faulty: bool) -> None:
    """Leaves modules where overrides replace them; touched where they do."""
    original: Callable[..., Any] = overrides._replacement

    def replacement(fqn: str, child: Any, asked: Any) -> Any:
        new = original(fqn, child, asked)
        if new is not child:
            touch()
        return child if faulty else new

    overrides._replacement = replacement


def _with_callers_casts(original, gm, given):
    with torch.enable_grad():
        return list(gm(*[each.detach() if isinstance(each, Tensor) else each for each in given]))


USERS = (
    replacing(
        "never_recompiles",
        "what a transform changes in the graph is not run",
        f"{TRACER}.transformation:_checked",
        _as_it_is,
        _was_changed,
    ),
    replacing(
        "skips_transforms",
        "overrides do not transform the graph",
        f"{TRACER}.transformation:apply_overrides",
        _untransformed,
        _has_overrides,
    ),
    replacing(
        "skips_gm_transformation",
        "the graph is not transformed by gm_transformation",
        f"{TRACER}.transformation:apply_gm_transformation",
        lambda original, gm, inputs, transformation: gm,
        lambda gm, inputs, transformation: transformation is not None,
    ),
    switched(
        "skips_replacements",
        "overrides replace no module",
        _keep_modules,
    ),
    replacing(
        "casts_twice",
        "the graph runs under the caller's autocast",
        f"{TRACER}.compiled:_without_autograd",
        _with_callers_casts,
        lambda gm, given: torch.is_autocast_enabled("cpu"),
    ),
)

MUTANTS = (*COMMUNICATION, *BUCKETS, *VALIDITY, *STATE, *USERS)

_REFUSED = {"*RefusedTest.test_*": "the step is refused in its trace, before anything comes of it"}
_RPROP = {"*.test_Rprop_*": "Rprop reads its learning rate when it makes its state, and never again"}
SURVIVORS: dict[str, dict[str, str]] = {
    "tracer_skips_a_parameter": _REFUSED,
    "steps_optimizer_twice": _REFUSED,
    "stale_learning_rate": _RPROP,
    "one_rate_for_all_groups": _RPROP,
}
