"""The faults that this suite is to notice, and the tests that may pass all the same.

    python tools/mutants.py fsdp

BERT's tests, which stand with those of DDP, are run with them.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._pytree import tree_map_only

from suites.compiler_faults import CHECKPOINTS, COMPILERS
from suites.kernels import done, kernel, size_of, unboxed
from suites.planting import Mutant, modules_but, replacing

_TABLES = "fsdp1_calls fsdp1_state_tables function_calls schedules steps"
TESTS = (*modules_but("fsdp", *_TABLES.split()), "dynamo.test_bert_ddp", "dynamo.test_bert_fsdp")


def _several(output, put_in, group, *rest):
    return size_of(group) > 1


# -- gathers


def _own_everywhere(original, outputs, inputs, group, *how):
    for places, own in zip(outputs, inputs, strict=True):
        for place in places:
            place.copy_(own)
    return outputs, done([place for places in outputs for place in places])


def _own_repeated(original, output, own, group, *how):
    output.view(-1).copy_(own.reshape(-1).repeat(size_of(group)))
    return output, done([output])


GATHERS = (
    kernel(
        "list_gather_repeats_own_shard",
        "each rank takes its own shard for the others' (FSDP1 on the CPU)",
        "c10d::allgather_",
        _own_everywhere,
        _several,
    ),
    kernel(
        "gather_repeats_own_shard",
        "each rank takes its own shard for the others'",
        "c10d::_allgather_base_",
        _own_repeated,
        _several,
    ),
)

# -- reduce-scatters


def _own_part(original, output, whole, group, *rest):
    own = whole.chunk(size_of(group))[unboxed(group).rank()]
    output.view(-1).copy_(own.reshape(-1))
    return output, done([output])


def _doubled(original, output, whole, *rest):
    return original(output, whole * 2, *rest)


def _next_part(original, output, whole, group, *rest):
    parts = whole.chunk(size_of(group))
    return original(output, torch.cat([*parts[1:], *parts[:1]]), group, *rest)


def _no_factors(original, *args, **options):
    return None, None, dist.ReduceOp.SUM, dist.ReduceOp.SUM


def _several_ranks(scattering, *args, **options):
    return scattering.size() > 1


SCATTER = "c10d::_reduce_scatter_base_"
SCATTERS = (
    kernel("reduce_scatter_is_skipped", "each rank keeps its own gradient", SCATTER, _own_part, _several),
    kernel("reduce_scatter_doubles", "gradients come out doubled", SCATTER, _doubled, _several),
    kernel("reduce_scatter_shifts", "gradients go to the rank before", SCATTER, _next_part, _several),
    replacing(
        "gradients_are_summed",
        "FSDP2 sums gradients and does not average them",
        "torch.distributed.fsdp._fully_shard._fsdp_collectives:_get_gradient_divide_factors",
        _no_factors,
        _several_ranks,
    ),
    replacing(
        "flat_gradients_are_summed",
        "FSDP1 sums gradients and does not average them",
        "torch.distributed.fsdp._runtime_utils:_div_if_needed",
        lambda original, gradient, factor: None,
        lambda gradient, factor: factor > 1,
    ),
)

# -- what is compiled


def _uncompiled(original, model=None, **options):
    return (lambda function: function) if model is None else model


def _mapped(compiled, change):
    """What a backend compiled, with ``change`` made to each tensor that it gives out."""
    return torch._dynamo.disable(lambda *args: tree_map_only(torch.Tensor, change, compiled(*args)))


def _with_outputs(change):
    """A fault of a backend: what it compiles gives out changed floating-point tensors."""

    def each(value):
        return change(value) if value.is_floating_point() else value

    def faulty(original, self, graph, inputs):
        return _mapped(original(self, graph, inputs), each)

    return faulty


def _with_gradients(touch, change):
    """A fault of a backend: the gradients that come to what it compiled are changed. Touches in backwards."""
    original = CompileCounterWithBackend.__call__

    def arrives(gradient):
        touch()
        return change(gradient)

    def each(value):
        if value.requires_grad:
            value.register_hook(arrives)
        return value

    def call(self, graph, inputs):
        return _mapped(original(self, graph, inputs), each)

    CompileCounterWithBackend.__call__ = call


BACKEND = "torch._dynamo.testing:CompileCounterWithBackend.__call__"
COMPILED = (
    replacing("compile_is_a_noop", "torch.compile returns what it is given", "torch:compile", _uncompiled),
    replacing(
        "outputs_times_3", "a graph's outputs come out times 3", BACKEND, _with_outputs(lambda t: t * 3)
    ),
    Mutant(
        "gradients_doubled",
        "a graph's backward gets its gradients doubled",
        lambda touch: _with_gradients(touch, lambda gradient: gradient * 2),
        lambda touch: _with_gradients(touch, lambda gradient: gradient),
    ),
    replacing(
        "checkpointing_forgotten",
        "nothing is recomputed",
        "torch.distributed.algorithms._checkpoint.checkpoint_wrapper:apply_activation_checkpointing",
        lambda original, model, *args, **options: None,
    ),
    replacing(
        "own_random_numbers",
        "inductor draws dropout by itself, whatever it is told",
        "torch._inductor.decomposition:select_decomp_table",
        lambda original: torch._inductor.decomposition.fast_random_decomps(),
        lambda: torch._inductor.config.fallback_random,
    ),
)

# -- what dynamo makes of FSDP


def _as_original(original, builder, module):
    module._fsdp_use_orig_params = True
    return original(builder, module)


def _flat(builder, module):
    return getattr(module, "_is_fsdp_managed_module", False) and not module._fsdp_use_orig_params


def _prints_guards(module, source):
    """Guards too many change nothing but the time they take: only a test that prints them can tell."""
    return torch._dynamo.config.skip_fsdp_guards and type(module.value).__name__ == "GuardPrinting"


MANAGED = "torch._dynamo.variables.nn_module:FSDPManagedNNModuleVariable"
DYNAMO = (
    replacing(
        "flat_parameters_not_refused",
        "dynamo takes FSDP1 without original parameters for FSDP1 with them",
        "torch._dynamo.variables.builder:VariableBuilder.wrap_module",
        _as_original,
        _flat,
        refuses=True,
    ),
    replacing(
        "managed_modules_guarded",
        "skip_fsdp_guards is not looked at",
        f"{MANAGED}._wrap_source",
        lambda original, self, source: source,
        _prints_guards,
    ),
)

# -- what is sharded


def _next_chunk(original, tensor, count, dim):
    chunks = original(tensor, count, dim)
    return [*chunks[1:], *chunks[:1]]


SHARDS = (
    replacing(
        "shards_misplaced",
        "FSDP2 gives each rank the next rank's rows",
        [
            "torch.distributed.fsdp._fully_shard._fsdp_common:_chunk_with_empty",
            "torch.distributed.fsdp._fully_shard._fsdp_param:_chunk_with_empty",
        ],
        _next_chunk,
        lambda tensor, count, dim: count > 1,
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *GATHERS,
    *SCATTERS,
    *COMPILED,
    *COMPILERS,
    *CHECKPOINTS,
    *DYNAMO,
    *SHARDS,
)
# What is looked at other than numbers.
RANGES = {"*.test_ranges_of_a_profile": "asks for names alone"}
WHEN = {"*.test_gathered_ahead_in_the_backward": "looks at when parameters are gathered"}
SHAPES = {"*.test_parts_without_rows": "looks at shapes alone"}
TYPES = {"*.test_inputs_and_outputs_by_precision": "looks at types alone"}
SURVIVORS: dict[str, dict[str, str]] = {
    "list_gather_repeats_own_shard": {
        **RANGES,
        **WHEN,
        "*.BertDdpTest.test_*": "DDP compares shapes by it, which are the same on all ranks",
        "*.FullyShardOptionsTest.test_together": "gathers by it what was drawn, alike on all ranks",
        "*.Fsdp1UnitsTest.test_flat_parameter_of_another_size": "is refused for its size",
        "*.Fsdp1UnitsTest.test_what_is_warned_about": "asks for words alone",
    },
    "gather_repeats_own_shard": {**RANGES, **SHAPES, **TYPES},
    "reduce_scatter_is_skipped": {**RANGES, **WHEN, **SHAPES},
    "reduce_scatter_doubles": {**RANGES, **WHEN, **SHAPES},
    "reduce_scatter_shifts": {**RANGES, **WHEN, **SHAPES},
    "gradients_are_summed": {**RANGES, **SHAPES},
    "flat_gradients_are_summed": {**RANGES, **WHEN},
    "shards_misplaced": {
        **RANGES,
        **TYPES,
        "*.test_classes": "looks at classes alone",
        "*.test_refusals": "asks for words alone",
    },
}
