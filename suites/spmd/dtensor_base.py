"""The ground that the DTensor suites stand on: bodies that know no rank mode, and a case for each mode.

Owns the cases that a class of bodies becomes (``in_rank_modes``), what each of them tries, the tensors that
bodies take from the model of shards, and the count of the collectives that a region starts.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
import torch._dynamo  # DTensor's first operator asks for it, in every rank
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode

from harness import (
    DTensorContinuousTestBase,
    DTensorOpTestBase,
    DTensorTestBase,
    LocalDTensorContinuousTestBase,
    conformance,
    map_local_for_rank,
)
from harness.ranks.local import rank as local
from harness.settings import slow_wanted
from harness.targets import Capability, current, needs
from suites.spmd.sharding_model import Array, Pieces, cut

Case = TypeVar("Case")

RANKS = 4
#: How many combinations are too few to leave any out; of others every so many are kept.
FEW, STRIDE = 10, 5
#: For results of arithmetic that DTensor may do in another order.
ROUNDED = {"rtol": 1e-5, "atol": 1e-5}
#: The rank modes, by what they are called in the name of a case. One process that plays all ranks has no
#: group of the target, and does so on the CPU.
ALONE = {"device_type": "cpu"}
MODES = {
    "OnFreshRanks": (DTensorTestBase, {"rank_modes": ("fresh",)}),
    "OnPooledRanks": (DTensorContinuousTestBase, {"rank_modes": ("pooled", "fresh")}),
    "OnThreads": (DTensorOpTestBase, {"rank_modes": ("threads",), **ALONE}),
    "OnLocalTensors": (LocalDTensorContinuousTestBase, {"rank_modes": ("local",), **ALONE}),
}
#: The modes of bodies that name none. Fresh ranks are pooled ones that nobody keeps: one program compares the
#: two (``test_rank_modes``).
USUAL = ("OnPooledRanks", "OnThreads", "OnLocalTensors")


def in_rank_modes(scope: dict[str, Any], *bodies: type, modes: Iterable[str] = USUAL) -> None:
    """Add a case for each class of bodies and rank mode to a module's scope: <Bodies>OnThreadsTest etc."""
    modes = tuple(modes)
    for body, (number, mode) in itertools.product(bodies, enumerate(modes)):
        base, of_mode = MODES[mode]
        name = f"{body.__name__}{mode}Test"
        own = {"__module__": body.__module__, "__qualname__": name, "__doc__": body.__doc__}
        own["share"] = (number, len(modes))
        case = type(name, (body, base), {**own, **of_mode, "world_size": RANKS})
        scope[name] = case if "device_type" in of_mode else needs(Capability.FUNCTIONAL)(case)


def thinned(combinations: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Some of the combinations, and those few that it takes to have each choice at each place.

    All where they are few. Every ``STRIDE``-th: it has no factor in common with the two, three or four
    choices at a place, of which it would always take the same.
    """
    if len(combinations) < FEW:
        return list(combinations)
    kept = list(combinations[::STRIDE])
    shown = {choice for each in kept for choice in enumerate(each)}
    for each in combinations:
        if not shown.issuperset(enumerate(each)):
            kept.append(each)
            shown.update(enumerate(each))
    return kept


class Bodies:
    """What bodies have at hand. Four ranks; ``self.rank`` is all of them at once on local tensors."""

    #: The number of this case among those of its bodies, and how many these are.
    share: ClassVar[tuple[int, int]] = (0, 1)

    def setUpRank(self) -> None:
        super().setUpRank()
        self._meshes: dict[tuple[int, ...], DeviceMesh] = {}

    def tearDownRank(self) -> None:
        self._meshes.clear()  # or their groups' connections stay open, and the ranks cannot be kept
        super().tearDownRank()

    @functools.cached_property
    def _order(self) -> random.Random:
        """What shuffles the cases of a test, alike in each mode."""
        return random.Random(self._testMethodName)

    def some(self, of: Iterable[Case]) -> list[Case]:
        """Those that fall to this rank mode: what modes share need not be tried three times.

        Each is tried in one of the modes; by ``--slow`` in all of them. Only pooled ranks are on a target
        other than the CPU, and try all.
        """
        every = list(of)
        number, modes = self.share
        if slow_wanted(os.environ) or current().device_type != "cpu":
            return every
        return self._order.sample(every, len(every))[number::modes]

    def mesh(self, *shape: int) -> DeviceMesh:
        """A mesh of that shape over all ranks; the same one each time."""
        if shape not in self._meshes:
            with local.outside():
                self._meshes[shape] = init_device_mesh(self.device_type, shape)
        return self._meshes[shape]

    def tensor(self, array: Array) -> torch.Tensor:
        """The array as a tensor, the same on each rank."""
        return torch.from_numpy(np.array(array, order="C")).to(self.device_type)

    def on_each(self, array_of: Callable[[int], Array]) -> torch.Tensor:
        """A tensor that differs by rank."""
        return map_local_for_rank(self.rank, lambda rank: self.tensor(array_of(rank)))

    def laid(self, pieces: Pieces) -> DTensor:
        """The model's array as a DTensor, made from what each rank holds of it."""
        whole = torch.empty(pieces.whole.shape)
        return DTensor.from_local(
            self.on_each(pieces.of),
            self.mesh(*pieces.mesh_shape),
            pieces.placements,
            run_check=False,
            shape=whole.shape,
            stride=whole.stride(),
        )

    def spread(self, array: Array, mesh: DeviceMesh, *placements: Placement) -> DTensor:
        """An array that rank 0 has, distributed; the others have something else, which must not count."""
        return distribute_tensor(self.on_each(lambda rank: array + 3 * rank), mesh, placements)

    def cell(self, operation: str, placements: str) -> AbstractContextManager[None]:
        """Say what is tried within: a cell of the report about the target."""
        return conformance.cell(operation, placements=placements, ranks=self.rank_modes[0])

    def check_lies(self, tensor: DTensor, whole: Array, placements: Sequence[Placement], msg: str) -> None:
        """Check a DTensor's placements, what each rank holds, and what it is when it is put together."""
        self.assertEqual(tensor.placements, tuple(placements), msg)
        self.assertEqual(tensor.shape, whole.shape, msg)
        mesh_shape = tuple(tensor.device_mesh.mesh.shape)
        own = self.on_each(lambda rank: cut(whole, rank, mesh_shape, placements))
        self.assertEqual(tensor.to_local(), own, msg)
        self.assertEqual(tensor.full_tensor(), self.tensor(whole), msg)


class Communication(TorchDispatchMode):
    """A region that counts the functional collectives started in it, by this thread: ``counts`` by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        # A DTensor's operator comes again as operators on its parts, communication among them.
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented
        name = func._schema.name.rpartition("::")[2]
        if func.namespace in ("_c10d_functional", "_dtensor") and name != "wait_tensor" and name[0] != "_":
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))
