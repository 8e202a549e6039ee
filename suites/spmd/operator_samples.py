"""A sample call of an operator of torch's database, on whole tensors and on DTensors, forward and backward.

The meshes, placements and the samples that are taken are drawn from the operator's name, so that they are the
same each time. Tensors have elements, and few of them; a shard may be empty.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.utils._pytree import tree_leaves, tree_map_only

from harness.fuzzing.dtensors.ranks import PlayedRanks

RANKS = 4
MESHES = ((4,), (2, 2))
DTYPE = torch.float32
#: Samples that are looked for, the most of them that are tried, and elements of their tensors.
LOOKED_AT, TRIED, ELEMENTS = 40, 4, 2000
#: The part of dimensions of meshes along which a tensor is whole on each rank.
REPLICATED = 0.3
CLOSE = {"rtol": 1e-4, "atol": 1e-4, "equal_nan": True}

Arguments = tuple[Any, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Sample:
    """A call: the arguments, the shape of the mesh, and the placements of each tensor among the arguments."""

    arguments: Arguments
    mesh: tuple[int, ...]
    placements: tuple[tuple[Replicate | Shard, ...], ...]

    def __str__(self) -> str:
        sizes = [tuple(tensor.shape) for tensor in tensors(self.arguments)]
        others = [leaf for leaf in tree_leaves(self.arguments) if not isinstance(leaf, Tensor)]
        return f"{sizes} as {self.placements} on {self.mesh}, with {others}"


def tensors(values: Any) -> list[Tensor]:
    """The tensors among values, in their order."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def samples(op: Any, ranks: PlayedRanks) -> Iterator[Sample]:
    """Some samples of an operator, each placed in one way."""
    choice = random.Random(op.formatted_name)
    with ranks.plain():
        torch.manual_seed(0)
        fit = []
        for sample in op.sample_inputs("cpu", DTYPE, requires_grad=op.supports_autograd):
            arguments = (sample.input, sample.args, sample.kwargs)
            given = tensors(arguments)
            sizes = [tensor.numel() for tensor in given]
            if any(tensor.ndim for tensor in given) and min(sizes) and max(sizes) < ELEMENTS:
                fit.append(arguments)
            if len(fit) > LOOKED_AT:
                break
    for arguments in choice.sample(fit, min(TRIED, len(fit))):
        mesh = choice.choice(MESHES)
        placed = tuple(tuple(_placement(choice, tensor) for _ in mesh) for tensor in tensors(arguments))
        yield Sample(arguments, mesh, placed)


def _placement(choice: random.Random, tensor: Tensor) -> Replicate | Shard:
    if not tensor.ndim or choice.random() < REPLICATED:
        return Replicate()
    return Shard(choice.randrange(tensor.ndim))


def check(op: Any, sample: Sample, ranks: PlayedRanks) -> None:
    """Run the operator on whole tensors and on DTensors; AssertionError where results or gradients differ.

    The loss weighs each element of each result with another number.
    """
    with ranks.plain():
        wholes = tree_map_only(
            Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), sample.arguments
        )
        expected = tensors(_called(op, wholes))
        weights = [torch.rand(each.shape, dtype=DTYPE) for each in expected]
        _backward(expected, weights, expected)
    mesh, places = ranks.mesh(sample.mesh), iter(sample.placements)
    laid = tree_map_only(
        Tensor,
        lambda t: ranks.placed(t.detach(), mesh, list(next(places))).requires_grad_(t.requires_grad),
        sample.arguments,
    )
    found = tensors(_called(op, laid))
    assert len(found) == len(expected), f"{len(found)} results in place of {len(expected)}"
    assert all(isinstance(each, DTensor) for each in found), "a result is no DTensor"
    joined = [each.full_tensor() for each in found]
    for one, other in zip(joined, expected, strict=True):
        _same("result", one, other, ranks)
    _backward(joined, weights, expected)
    for one, other in zip(tensors(laid), tensors(wholes), strict=True):
        if other.requires_grad:
            _same_gradient(one.grad, other.grad, ranks)


def _called(op: Any, arguments: Arguments) -> Any:
    given, args, kwargs = arguments
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return op.op(given, *args, **kwargs)


def _backward(results: list[Tensor], weights: list[Tensor], plain: list[Tensor]) -> None:
    """The backward of those results that have a derivative on plain tensors."""
    terms = [
        (result * weight).sum()
        for result, weight, each in zip(results, weights, plain, strict=True)
        if each.requires_grad and each.dtype == DTYPE
    ]
    if terms:
        sum(terms[1:], terms[0]).backward()


def _same_gradient(found: Any, expected: Tensor | None, ranks: PlayedRanks) -> None:
    """A gradient that nothing contributes to may be None, or zero."""
    if found is None:
        assert expected is None or not expected.count_nonzero(), "there is no gradient"
        return
    with ranks.plain():
        whole = torch.zeros(found.shape) if expected is None else expected
    _same("gradient", found.full_tensor(), whole, ranks)


def _same(what: str, found: Tensor, expected: Tensor, ranks: PlayedRanks) -> None:
    for rank, own in ranks.held(found).items():
        with ranks.plain():
            torch.testing.assert_close(
                own.detach(),
                expected.detach(),
                msg=lambda m, rank=rank: f"{what} on rank {rank}: {m}",
                **CLOSE,
            )
