"""The names that programs use which ``sharded_calls.txt`` has: of DTensor, FSDP2, meshes and collectives."""

from __future__ import annotations

import copy
import importlib
import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch._library import opaque_object
from torch.distributed import _functional_collectives, device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard import (
    _fsdp_collectives,
    _fsdp_common,
    _fsdp_init,
    _fsdp_param,
    _fsdp_param_group,
    _fsdp_state,
    _fully_shard,
)
from torch.distributed.tensor import (
    DTensor,
    _api,
    _dispatch,
    _op_schema,
    _ops,
    _random,
    _sharding_prop,
    _shards_wrapper,
)
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._ops import _tensor_ops, single_dim_strategy
from torch.distributed.tensor.parallel import loss, style
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from suites.spmd import dtensor_expressions, layouts
from suites.spmd.dtensor_expressions import placements
from suites.told_programs import called, numbers
from suites.values_as_text import text


def sharded(mesh: Any, words: str, *shape: int, wants: bool = False) -> DTensor:
    """Numbers that are distributed."""
    sizes, _ = dtensor_expressions._utils._compute_local_shape_and_global_offset(
        shape, mesh.shape, mesh.get_coordinate(), placements(words)
    )
    made = DTensor.from_local(
        numbers(*sizes),
        mesh,
        placements(words),
        run_check=False,
        shape=torch.Size(shape),
        stride=torch.empty(shape, device="meta").stride(),
    )
    return made.requires_grad_(wants)


def hinted(number: int) -> Any:
    """A number that is known by a hint alone."""
    env = ShapeEnv()
    made = env.create_unbacked_symint()
    env.var_to_hint_override[made.node.expr] = number
    return made


def into(operator: Any) -> Any:
    """Whether what an operator of ``x`` gives is what it has been given for that: ``v``, ``w`` or ``i``."""
    mesh = dtensor_expressions.line()
    x, v, w = (sharded(mesh, "R", 3, 4) for _ in range(3))
    i = DTensor.from_local(torch.zeros(3, 4, dtype=torch.int64), mesh, placements("R"), run_check=False)
    found = operator(x, v, w, i)
    return [each is v or each is w or each is i for each in (found if isinstance(found, tuple) else [found])]


def chosen(
    operator: Any, given: Callable[..., Any], ways: str, *shapes: Sequence[int], **named: Any
) -> list[str]:
    """What is chosen for an operator, by the ways in which its tensors lie: what it gives, and of what.

    ``given`` makes the arguments of tensors of these shapes. Ways that have the same answer share a line.
    """
    answers: dict[str, list[str]] = {}
    for several in itertools.product(ways.split(", "), repeat=len(shapes)):
        mesh = dtensor_expressions.grid() if " " in several[0] else dtensor_expressions.line()
        tensors = [
            dtensor_expressions.spec(mesh, words, *shape)
            for words, shape in zip(several, shapes, strict=True)
        ]
        schema = _op_schema.OpSchema(operator, tuple(given(*tensors)), named)
        answer = called(DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding_non_cached, schema)
        if not isinstance(answer, str):
            moved = answer.redistribute_schema
            args = "" if moved is None else f" of {text(_briefly(moved.args_schema))}"
            answer = f"{text(_briefly(answer.output_spec))}{args}"
        answers.setdefault(answer.splitlines()[0], []).append(" with ".join(several))
    return [f"{'; '.join(of)}: {answer}" for answer, of in answers.items()]


def _briefly(of: Any) -> Any:
    """A value in which each spec stands by its placements and size."""
    if isinstance(of, DTensorSpec):
        return f"{layouts.words(of.placements)}{list(of.shape) if of.tensor_meta else ''}"
    return [_briefly(each) for each in of] if isinstance(of, list | tuple) else of


def dims(shard: Any = None, replicate: Any = None) -> Any:
    """Which dimensions of a mesh shard, and which replicate."""
    return torch.distributed.fsdp.DataParallelMeshDims(shard=shard, replicate=replicate)


def settings(*of: Any) -> list[tuple[str, str]]:
    """What is set on objects: numbers, words, functions and the like, each by its name and place."""
    plain = (bool, int, float, str, type(None), torch.dtype)
    return [
        (f"{name} {place}", str(value))
        for place, each in enumerate(of)
        for name, value in sorted(vars(each).items())
        if isinstance(value, plain) or callable(value) or (isinstance(value, list) and len(value) < 2)
    ]


def changes(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Settings that are not what they were."""
    return [each for each in after if each not in before]


def lies(tensor: Any) -> Any:
    """How a tensor lies, and what of it is here; another value is itself."""
    if not isinstance(tensor, DTensor):
        return tensor
    local = tensor.to_local()
    shape = (tuple(tensor.shape), tensor.stride())
    return *shape, tensor.placements, tensor.requires_grad, tuple(local.shape), local


NAMES = {
    **dtensor_expressions.NAMES,
    **{
        each.__name__.rpartition(".")[2]: each
        for each in (_fsdp_collectives, _fsdp_common, _fsdp_init, _fsdp_param, _fsdp_param_group, _fsdp_state)
    },
    **{
        each.__name__.rpartition(".")[2]: each
        for each in (_fully_shard, _api, _dispatch, _random, _sharding_prop, _shards_wrapper, _tensor_ops)
    },
    **{each.__name__.rpartition(".")[2]: each for each in (loss, style, opaque_object, device_mesh, mock)},
    "single_dim_strategy": single_dim_strategy,
    **{each.__name__: each for each in (numbers, sharded, hinted, called, into, lies, fully_shard, dims)},
    **{each.__name__: each for each in (CPUOffloadPolicy, MixedPrecisionPolicy)},
    "autogen": getattr(_ops, "autogen", None),  # since torch 2.13
    "functional": _functional_collectives,
    **{each.__name__: each for each in (settings, changes, chosen)},
    "copy": copy,
    # A function of the same name hides the module.
    "resharding": importlib.import_module("torch.distributed.tensor.parallel.input_reshard"),
    "tensor": torch.distributed.tensor,
    "dist": dist,
    "nn": nn,
    "thing": SimpleNamespace,
}
