"""Faults of collectives over meshes and of tracing them: one at a time.

Functional collectives are operators: their faults are put in the place of the kernel for the CPU, so that
traced, compiled and eager code meet them alike. Local tensors have collectives of their own and are not
concerned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from suites.planting import Mutant, Touch, always, replacing

NAMESPACE = "_c10d_functional"

# Overrides of kernels last as long as their library.
_libraries: list[torch.library.Library] = []
# What stands in a kernel's place by now, by operator: several mutants of one are watched together.
_in_place: dict[str, Callable[..., Any]] = {}


def kernel(
    name: str, what: str, operator: str, faulty: Callable[..., Any], when: Callable[..., bool] = always
) -> Mutant:
    """A mutant that puts ``faulty(original, *args)`` in the place of a functional collective's kernel."""

    def put(touch: Touch, faulty: Callable[..., Any] | None) -> None:
        original = _in_place.get(operator) or _kernel_of(operator)

        def substitute(*args: Any) -> Any:
            if not when(*args):
                return original(*args)
            touch()
            return original(*args) if faulty is None else faulty(original, *args)

        library = torch.library.Library(NAMESPACE, "IMPL")
        library.impl(operator, substitute, "CPU")
        _libraries.append(library)
        _in_place[operator] = substitute

    return Mutant(name, what, lambda touch: put(touch, faulty), lambda touch: put(touch, None))


def _kernel_of(operator: str) -> Callable[..., Any]:
    overload = getattr(torch.ops._c10d_functional, operator).default

    def call(*args: Any) -> Any:
        # Lets other threads run meanwhile, which gloo's need; a kernel's own ``call_boxed`` does not.
        return overload._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args)

    return call


def _group(name: Any) -> dist.ProcessGroup:
    """The group that an operator was given, by name or by itself."""
    return dist.distributed_c10d._resolve_process_group(name) if isinstance(name, str) else name


def _several(*args: Any) -> bool:
    """Whether there are other ranks, as an operator's last argument says."""
    return _group(args[-1]).size() > 1


def _wait(tensor: torch.Tensor) -> torch.Tensor:
    return torch.ops._c10d_functional.wait_tensor(tensor)


# -- functional collectives


def _waits_matter(tensor: torch.Tensor) -> bool:
    """Collectives among threads are done when they come back."""
    in_rank_thread = threading.current_thread() is not threading.main_thread()
    return not in_rank_thread and torch._C._distributed_c10d._get_work_registry_size() > 0


def _averaged(original, tensor, reduction, group):
    return _wait(original(tensor, reduction, group)) / _group(group).size()


def _without_the_last(original, tensor, reduction, group):
    last = _group(group).rank() == _group(group).size() - 1
    return original(torch.zeros_like(tensor) if last else tensor, reduction, group)


def _sums(tensor, reduction, group):
    return reduction == "sum" and _several(group)


def _own_repeated(original, tensor, size, group):
    return torch.cat([tensor] * size)


def _own_chunk(original, tensor, reduction, size, group):
    return tensor.chunk(size)[_group(group).rank()].clone()


def _next_chunk(original, tensor, reduction, size, group):
    chunks = list(tensor.chunk(size))
    return original(torch.cat([*chunks[1:], chunks[0]]), reduction, size, group)


def _turned(original, tensor, received, sent, group):
    return _wait(original(tensor, received, sent, group)).roll(1, 0)


def _all_but_last(own: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Several tensors, of which the last one stays what this rank has: ``own(tensor, *args)``."""

    def faulty(original, tensors: Sequence[torch.Tensor], *args: Any) -> list[torch.Tensor]:
        return [*original(list(tensors), *args)[:-1], own(tensors[-1], *args)]

    return faulty


FUNCTIONAL = (
    kernel(
        "wait_is_a_no_op",
        "wait_tensor comes back at once",
        "wait_tensor",
        lambda original, tensor: tensor,
        when=_waits_matter,
    ),
    kernel(
        "functional_all_reduce_is_identity",
        "every rank keeps its own tensor",
        "all_reduce",
        lambda original, tensor, reduction, group: tensor.clone(),
        when=_several,
    ),
    kernel(
        "functional_all_reduce_averages",
        "a sum is divided by the number of ranks",
        "all_reduce",
        _averaged,
        when=lambda tensor, reduction, group: _sums(tensor, reduction, group),
    ),
    kernel(
        "functional_all_reduce_drops_a_rank",
        "the last rank's part is zero",
        "all_reduce",
        _without_the_last,
        when=lambda tensor, reduction, group: _sums(tensor, reduction, group),
    ),
    kernel(
        "functional_broadcast_takes_the_next_source",
        "the rank after the source gives",
        "broadcast",
        lambda original, tensor, source, group: original(tensor, (source + 1) % _group(group).size(), group),
        when=_several,
    ),
    kernel(
        "functional_all_gather_repeats_its_own_shard",
        "every part is the rank's own",
        "all_gather_into_tensor",
        _own_repeated,
        when=_several,
    ),
    kernel(
        "functional_reduce_scatter_does_not_reduce",
        "a rank gets its own part of its own tensor",
        "reduce_scatter_tensor",
        _own_chunk,
        when=_several,
    ),
    kernel(
        "functional_reduce_scatter_shifts_by_one",
        "a rank gets the next one's part",
        "reduce_scatter_tensor",
        _next_chunk,
        when=_several,
    ),
    kernel(
        "functional_all_to_all_turns_rows",
        "what is received is in another order",
        "all_to_all_single",
        _turned,
        when=_several,
    ),
    kernel(
        "coalesced_all_reduce_forgets_the_last",
        "the last of several tensors is not reduced",
        "all_reduce_coalesced",
        _all_but_last(lambda tensor, *args: tensor.clone()),
        when=_several,
    ),
    kernel(
        "coalesced_all_gather_forgets_the_last",
        "the last of several tensors is gathered from the own rank",
        "all_gather_into_tensor_coalesced",
        _all_but_last(lambda tensor, size, group: torch.cat([tensor] * size)),
        when=lambda tensors, size, group: len(tensors) > 1 and size > 1,
    ),
    kernel(
        "coalesced_reduce_scatter_forgets_the_last",
        "the last of several tensors is not reduced",
        "reduce_scatter_tensor_coalesced",
        _all_but_last(
            lambda tensor, reduction, size, group: tensor.chunk(size)[_group(group).rank()].clone()
        ),
        when=lambda tensors, reduction, size, group: len(tensors) > 1 and size > 1,
    ),
)

# -- plain collectives, which DTensor uses to hand out tensors


def _shifted(original, tensor, scatter_list=None, *args, **kwargs):
    if scatter_list:
        scatter_list = [*scatter_list[1:], scatter_list[0]]
    return original(tensor, scatter_list, *args, **kwargs)


def _next_source(original, tensor, *args, group=None, group_src=None, **kwargs):
    size = dist.get_world_size(group)
    return original(tensor, *args, group=group, group_src=(group_src + 1) % size, **kwargs)


def _has_group_source(tensor, *args, group=None, group_src=None, **kwargs):
    return group_src is not None and dist.get_world_size(group) > 1


def _names(function: str) -> tuple[str, ...]:
    """The names that are called. ``make_fx`` has each function call itself once more, by the name that it has
    in its own module: two faults would make up for each other there."""
    return tuple(
        f"{module}:{function}"
        for module in (
            "torch.distributed",
            "torch.distributed.tensor._collective_utils",
        )
    )


PLAIN = (
    replacing(
        "scatter_shifts_by_one",
        "a rank gets the next one's part",
        _names("scatter"),
        _shifted,
        when=_has_group_source,
    ),
    replacing(
        "broadcast_takes_the_next_source",
        "the rank after the source gives",
        _names("broadcast"),
        _next_source,
        when=_has_group_source,
    ),
)

# -- meshes, tracing and compiling


def _baked(original, function, *options, **named):
    def trace(*inputs):
        module = original(function, *options, **named)(*inputs)
        first = next(iter(module.graph.find_nodes(op="placeholder")))
        module.register_buffer("recorded", inputs[0].clone())
        with module.graph.inserting_after(first):
            recorded = module.graph.get_attr("recorded")
        first.replace_all_uses_with(recorded)
        module.recompile()
        return module

    return trace


MESHES = (
    replacing(
        "permute_stays",
        "every rank gets what it has",
        "torch.distributed._functional_collectives:permute_tensor",
        lambda original, tensor, *args, **kwargs: tensor.clone(),
    ),
    replacing(
        "mesh_takes_the_other_dimension",
        "the group of a mesh dimension is that of the next one",
        "torch.distributed._functional_collectives:_resolve_group",
        lambda original, group, *args: original((group[0], (group[1] + 1) % group[0].ndim), *args),
        when=lambda group, *args: isinstance(group, tuple) and group[0].ndim > 1,
    ),
    replacing(
        "tracing_records_the_input",
        "a traced graph holds the input that it was traced on",
        ("suites.spmd.mesh_base:make_fx", "suites.spmd.test_mesh_tracing:make_fx"),
        _baked,
    ),
    replacing(
        "compile_returns_the_function",
        "torch.compile compiles nothing",
        "torch:compile",
        lambda original, model=None, **options: model,
    ),
)

TRACING = (
    replacing(
        "symbolic_is_fake",
        "a graph that is to leave sizes open has those it was traced on",
        "suites.spmd.mesh_base:make_fx",
        lambda original, function, tracing_mode: original(function, tracing_mode="fake"),
        lambda function, tracing_mode="real": tracing_mode == "symbolic",
    ),
)

MUTANTS: tuple[Mutant, ...] = (*FUNCTIONAL, *PLAIN, *MESHES, *TRACING)
# What a test looks at instead, that executes what is moved.
_REGION = {"*.ParallelLossesOnPooledRanksTest.test_the_region": "looks at whether classes are gathered"}
_SAME = {"*.WayOnPooledRanksTest.test_redistribute_in_another_dtype": "all elements are the same"}
_NAMES = {
    "*.PlansOnPooledRanksTest.test_names": "looks at names",
    "*.LayersOnPooledRanksTest.test_frozen_parameters": "looks at who wants a gradient",
}
SURVIVORS: dict[str, dict[str, str]] = {
    "wait_is_a_no_op": {
        **_REGION,
        "*.test_train_step_simple": "a race that the collective nearly always wins: no rank is late there",
    },
    "functional_all_reduce_is_identity": _REGION,
    "functional_all_reduce_averages": _REGION,
    "functional_all_reduce_drops_a_rank": {
        **_REGION,
        "*.OperatorsOnThreadsTest.test_layer_norm": "where it sums, the last rank has no elements",
    },
    "functional_all_gather_repeats_its_own_shard": {**_REGION, **_SAME},
    "functional_reduce_scatter_shifts_by_one": _SAME,
    "scatter_shifts_by_one": {
        **_REGION,
        **_NAMES,
        "*.EntryOnPooledRanksTest.test_distributed_parameters": "looks at gradients, which are all the same",
        "*.EntryOnPooledRanksTest.test_what_is_not_distributed": "looks at what is refused",
        "*.WayOnPooledRanksTest.test_gradients_of_wholes": "looks at gradients, which it has no part in",
        "*.WayOnPooledRanksTest.test_redistribute_in_another_dtype": "looks at a gradient that is one number",
        "*.WayOnPooledRanksTest.test_where_a_checkpoint_puts_parts": "looks at offsets and sizes",
        "*.Lookups*Test.test_mean_of_what_ranks_ignore": "a mean of means; whose they are is no matter",
    },
    "broadcast_takes_the_next_source": {
        **_NAMES,
        "*.WayOnPooledRanksTest.test_equality": "all ranks have the tensor that is distributed",
        "*.Drawn*Test.test_distribute": "all ranks have the tensor that is distributed",
    },
    "mesh_takes_the_other_dimension": {
        "*.test_nested_functions_nd": "the dimensions are of one size, and all are summed over",
    },
    "tracing_records_the_input": {
        "*.test_scatter_in_place_nd": "the first input only says where to receive",
        "*.test_scatter_without_its_wait": "the first input only says where to receive",
    },
}
