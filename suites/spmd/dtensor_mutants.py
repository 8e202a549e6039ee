"""Faults of DTensor: of moving placements, of gradients on their way, and of what operators say they made."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributed.tensor import Partial, Replicate
from torch.distributed.tensor._dispatch import OpDispatcher
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.parallel import SequenceParallel
from torch.utils._pytree import tree_map_only

from suites.planting import Mutant, Touch, replacing, switched

PLACEMENTS = "torch.distributed.tensor.placement_types"
REDISTRIBUTE = "torch.distributed.tensor._redistribute"


def _own_part(original, self, tensor, mesh, mesh_dim, shard_spec):
    return shard_spec._replicate_to_shard(tensor, mesh, mesh_dim, mesh._sym_get_coordinate(mesh_dim))


def _next_place(original, self, tensor, mesh, mesh_dim, shard_index):
    return original(self, tensor, mesh, mesh_dim, (shard_index + 1) % mesh.size(mesh_dim))


def _turned_whole(original, self, tensor, mesh, mesh_dim, logical_shape):
    return original(self, tensor, mesh, mesh_dim, logical_shape).roll(1, self.dim)


def _turned_shard(original, self, tensor, mesh, mesh_dim, logical_shape, new_shard_dim):
    return original(self, tensor, mesh, mesh_dim, logical_shape, new_shard_dim).flip(self.dim)


def _steps(transforms, mesh):
    """The places of those steps of a redistribution that do something."""
    return [
        place
        for place, step in enumerate(transforms)
        if step.src_dst_placements[0] != step.src_dst_placements[1] and mesh.size(step.mesh_dim) > 1
    ]


def _without_the_last_step(original, transforms, mesh, *args):
    last = _steps(transforms, mesh)[-1]
    return original([*transforms[:last], *transforms[last + 1 :]], mesh, *args)


def _local_gradient(original, ctx, gradient):
    return gradient.to_local(), None, None, None, None, None, None


def _to_be_reduced(ctx, gradient):
    """Whether a gradient has to be communicated on its way to the tensor that a DTensor was made from."""
    return gradient is not None and any(
        isinstance(one, Partial) and isinstance(other, Replicate)
        for one, other in zip(gradient.placements, ctx.forward_input_placements, strict=True)
    )


def _wrap_results(touch: Touch, faulty: bool) -> None:
    """Stands where operators' results become DTensors. The method is static: ``replacing`` would bind it."""
    original = OpDispatcher.wrap

    def wrap(result: Any, spec: Any) -> Any:
        if not isinstance(spec, DTensorSpec) or Partial() not in spec.placements:
            return original(result, spec)
        touch()
        if faulty:
            whole = tuple(Replicate() if each == Partial() else each for each in spec.placements)
            spec = DTensorSpec(spec.mesh, whole, tensor_meta=spec.tensor_meta)
        return original(result, spec)

    OpDispatcher.wrap = staticmethod(wrap)  # type: ignore[assignment]  # that is the fault


def _detach_inputs(touch: Touch, faulty: bool) -> None:
    """Stands where inputs of sequence-parallel modules are laid out. Static, as above."""
    original = SequenceParallel._prepare_input_fn

    def prepare(sequence_dim: int, module: Any, inputs: Any, mesh: Any) -> Any:
        prepared = original(sequence_dim, module, inputs, mesh)
        touch()
        return tree_map_only(Tensor, Tensor.detach, prepared) if faulty else prepared

    SequenceParallel._prepare_input_fn = staticmethod(prepare)  # type: ignore[assignment]  # that is the fault


MUTANTS: tuple[Mutant, ...] = (
    switched(
        "sequence_parallel_detaches",
        "the inputs of sequence-parallel modules get no gradient",
        _detach_inputs,
    ),
    replacing(
        "redistribute_loses_a_partial_sum",
        "partial to replicated: every rank keeps its own part",
        f"{PLACEMENTS}:Partial._reduce_value",
        lambda original, self, tensor, mesh, mesh_dim: tensor,
        when=lambda self, tensor, mesh, mesh_dim: mesh.size(mesh_dim) > 1,
    ),
    replacing(
        "redistribute_cuts_without_summing",
        "partial to sharded: every rank keeps its part of its own",
        f"{PLACEMENTS}:Partial._reduce_shard_value",
        _own_part,
    ),
    replacing(
        "redistribute_keeps_the_next_shard",
        "replicated to sharded: a rank keeps the part of the next one",
        f"{PLACEMENTS}:Shard._replicate_to_shard",
        _next_place,
    ),
    replacing(
        "second_dimension_keeps_the_next_shard",
        "the same, of the mesh's second dimension only",
        f"{PLACEMENTS}:Shard._replicate_to_shard",
        _next_place,
        when=lambda self, tensor, mesh, mesh_dim, *args: mesh.ndim > 1 and mesh_dim == 1,
    ),
    replacing(
        "redistribute_joins_in_another_order",
        "sharded to replicated: rows are turned by one",
        f"{PLACEMENTS}:Shard._to_replicate_tensor",
        _turned_whole,
    ),
    replacing(
        "redistribute_flips_shards",
        "sharded to otherwise sharded: the joined dimension is the wrong way round",
        f"{PLACEMENTS}:Shard._to_new_shard_dim",
        _turned_shard,
    ),
    replacing(
        "redistribute_skips_the_last_step",
        "of several mesh dimensions the last to be moved is not",
        f"{REDISTRIBUTE}:_optimize_transform_infos",
        _without_the_last_step,
        when=lambda transforms, mesh, *args: mesh.ndim > 1 and bool(_steps(transforms, mesh)),
    ),
    replacing(
        "gradient_of_local_is_not_reduced",
        "the gradient of a local tensor is the rank's own part of a sum",
        "torch.distributed.tensor._api:_FromTorchTensor.backward",
        _local_gradient,
        when=_to_be_reduced,
    ),
    switched(
        "partial_results_are_called_replicated",
        "an operator whose result is a partial sum says it is whole",
        _wrap_results,
    ),
    replacing(
        "embedding_counts_rows_of_others",
        "rows that another rank looks up are not masked",
        "torch.distributed.tensor._ops._mask_buffer:MaskBuffer.apply_mask",
        lambda original, self, tensor: None,
    ),
)

SURVIVORS: dict[str, dict[str, str]] = {
    "sequence_parallel_detaches": {
        "*.LayersOnPooledRanksTest.test_sequences": "looks at gradients of parameters, not of the input",
    },
    "redistribute_keeps_the_next_shard": {
        "*.TensorParallel*Test.test_mlp_of_sharded_rows": "a gradient of ones is cut",
        "*.TensorParallel*Test.test_sequence_parallel": "a gradient of ones is cut",
    },
    "redistribute_joins_in_another_order": {
        "*.ChoicesOnLocalTensorsTest.test_the_smaller_one_is_moved": "looks at placements",
        "*.ParallelLossesOnPooledRanksTest.test_the_region": "looks at whether classes are gathered",
        "*.EntryOnPooledRanksTest.test_factories": "all rows are the same",
        "*.WayOnPooledRanksTest.test_redistribute_in_another_dtype": "all elements are the same",
        "*.CallsOnLocalTensorsTest.test_likes": "all elements are the same",
    },
    "embedding_counts_rows_of_others": {
        "*.ParallelLossesOnPooledRanksTest.test_the_region": "looks at whether classes are gathered",
    },
    "partial_results_are_called_replicated": {
        "*.EntryOnPooledRanksTest.test_distributed_parameters": "the sum only starts the backward",
        "*.DTensorProgramsTest.test_without_writes": "none of its fifteen programs looks at a partial result",
        "*.WayOnPooledRanksTest.test_redistribute_later": "the sum only starts the backward",
        "*.Drawn*Test.test_there_and_back": "the sum only starts the backward; nobody looks at it",
        "*.Lookups*Test.test_mean_of_what_ranks_ignore": "a partial mean; nobody looks at the count",
    },
}
