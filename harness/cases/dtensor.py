"""The base classes of DTensor tests: their backend, process group and mesh, one class a default rank mode.

    DTensorTestMixin + MultiProcessTestCase      fresh ranks      DTensorTestBase
                     + MultiProcContinuousTest   pooled ranks     DTensorContinuousTestBase
                     + MultiThreadedTestCase     threads          DTensorOpTestBase
    any of them, rank_modes = ("local",)         local tensors    LocalDTensorTestBase, ...

Source of the contract: ``torch.testing._internal.distributed._tensor.common_dtensor``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch._dynamo  # DTensor's first operator would import it in each rank: related: pytorch/pytorch#162595
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from harness.cases import backend_names, comms, defaults, meshes, subtests
from harness.cases.comms import with_comms
from harness.cases.continuous import (
    UNSET,
    ContinuousOrchestration,
    MultiProcContinuousTest,
    class_value,
    maker_of_group,
)
from harness.cases.dtensor_converter import DTensorConverter
from harness.cases.local_ranks import (
    LocalRanks,
    create_local_tensor_test_class,
    map_local_for_rank,
    map_local_tensor_for_rank,
    reduce_local_int,
)
from harness.cases.multiprocess import MultiProcessTestCase
from harness.cases.threaded import MultiThreadedTestCase
from harness.outcomes import Status
from harness.ranks import rendezvous
from harness.ranks.local import rank as local
from harness.requirements import get_required_world_size, skip_if_lt_x_gpu
from harness.settings import Settings

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

__all__ = [
    "DEVICE_COUNT",
    "DEVICE_TYPE",
    "NUM_DEVICES",
    "PG_BACKEND",
    "DTensorContinuousTestBase",
    "DTensorConverter",
    "DTensorOpTestBase",
    "DTensorTestBase",
    "DTensorTestMixin",
    "LocalDTensorContinuousTestBase",
    "LocalDTensorOpTestBase",
    "LocalDTensorTestBase",
    "create_local_tensor_test_class",
    "map_local_for_rank",
    "map_local_tensor_for_rank",
    "reduce_local_int",
    "skip_unless_torch_gpu",
    "with_comms",
]

DEVICE_TYPE, DEVICE_COUNT = defaults.accelerator()
NUM_DEVICES = defaults.num_devices()
PG_BACKEND = defaults.backend_for(DEVICE_TYPE)

# The mixin precedes a class with RankOrchestration among the bases, and calls the methods it overrides there.
if TYPE_CHECKING:
    from harness.cases.multiprocess import RankOrchestration as _Ranks
else:
    _Ranks = object


class DTensorTestMixin(_Ranks):
    """The helpers of a DTensor test in every rank mode."""

    what_makes_a_group = "@with_comms above the test makes it"

    @property
    def is_local_tensor_enabled(self) -> bool:
        """Whether one process simulates all ranks of this test."""
        return False

    @property
    def device_type(self) -> str:
        """The accelerator's type where there is one device per rank, else ``"cpu"``."""
        return defaults.device_type_for(self.world_size)

    def setUp(self) -> None:
        """Locks torch's sharding propagation, for ranks that are threads, and calls the base's ``setUp``."""
        self._lock_propagation()
        super().setUp()

    def _lock_propagation(self) -> None:
        # All ranks of the process trace shapes in one fake mode, which is not thread-safe, and torch's lock
        # around it does nothing (pytorch/pytorch#174820).
        if hasattr(ShardingPropagator, "_fake_mode_lock"):
            locked = mock.patch.object(ShardingPropagator, "_fake_mode_lock", threading.Lock())
            locked.start()
            self.addCleanup(locked.stop)

    def build_device_mesh(self) -> DeviceMesh:
        """A mesh of one dimension over all ranks."""
        with local.outside():
            return init_device_mesh(self.device_type, (self.world_size,))

    def init_manual_seed_for_rank(self) -> None:
        """Seeds torch with the rank: different numbers on each rank, the same in every run and mode."""
        torch.manual_seed(self.rank)

    run_subtests = subtests.run_subtests

    def _test_op(self, mesh: DeviceMesh, op_call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Fails unless an operator gives the same result on its arguments and on every sharding of them.

        The outputs on DTensors have to be DTensors, in the structure of the outputs on plain tensors.
        """
        expected = op_call(*args, **kwargs)
        converter = DTensorConverter(mesh, args, kwargs)
        for dist_args, dist_kwargs in converter:
            self.assertTrue(converter.successful(), "an argument cannot be distributed, or none is a tensor")
            found = op_call(*dist_args, **dist_kwargs)
            self.assertEqual(_whole(found), expected, f"with {_placements((dist_args, dist_kwargs))}")

    def _test_op_on_dtensor(self, op_call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Fails unless the operator's gathered result on DTensors equals that on gathered arguments."""
        whole_args, whole_kwargs = tree_map_only(
            DTensor, lambda d: d.full_tensor().detach().clone(), (args, kwargs)
        )
        expected = tree_leaves(op_call(*whole_args, **whole_kwargs))
        found = tree_leaves(_whole(op_call(*args, **kwargs)))
        self.assertEqual(found, expected, f"with {_placements((args, kwargs))}")


class DTensorTestBase(LocalRanks, DTensorTestMixin, MultiProcessTestCase):
    """A DTensor test on fresh ranks, with ``with_comms`` to make its process group.

    ``HARNESS_RANKS`` may select pooled ranks, threads or local tensors.
    """

    rank_modes: tuple[str, ...] = ("fresh", "pooled", "threads", "local")
    _groups_made = 0
    _ranks_are_kept = True

    @property
    def world_size(self) -> int:
        """The world size that the test requires (``requires_world_size``), else ``NUM_DEVICES``."""
        return get_required_world_size(self, NUM_DEVICES)

    @property
    def backend(self) -> str:
        """The backend of ``init_pg`` where the test names none: the default for ``device_type``."""
        return defaults.backend_for(self.device_type)

    def setUp(self) -> None:
        """Starts the ranks."""
        super().setUp()
        if isinstance(said := getattr(type(self), "backend", None), str):
            backend_names.check_in_parent(said)
        self._spawn_processes()

    def init_pg(self, eager_init: bool, backend: str | None = None) -> None:
        """Makes the default process group in this rank.

        ``eager_init`` binds it to an accelerator at once. UsageError for a backend that torch does not know;
        SkipTest for one that this machine lacks or has too few devices for.
        """
        if self.is_local_tensor_enabled:
            local.init_group(self.world_size)
            return
        name = self.backend if backend is None else backend
        comms.check_backend(name, self.world_size)
        dist.init_process_group(
            backend=name,
            world_size=self.world_size,
            rank=self.rank,
            store=rendezvous.store(self._rendezvous(), self.world_size),
            device_id=comms.bound_device(name, self.device_type, self.rank, eager_init=eager_init),
        )

    def _rendezvous(self) -> str:
        """A new file for each group: a FileStore removes its file when its last rank is gone.

        See pytorch/pytorch#67566 and pytorch/pytorch#13708.
        """
        self._groups_made += 1
        return self._file_name if self._groups_made == 1 else f"{self._file_name}.{self._groups_made}"

    def destroy_pg(self, device_id: int | None = None) -> None:
        """Destroys all process groups after a barrier; does nothing where the test destroyed them."""
        if not dist.is_initialized():
            return
        if not self.is_local_tensor_enabled:
            comms.meet(self.device_type, device_id)
        dist.destroy_process_group()

    def _start(self, mode: str, settings: Settings, timeout_s: float | None = None) -> None:
        self._ranks_are_kept = mode != "fresh"
        super()._start(mode, settings, timeout_s)

    def _run_arguments(self, world_size: int) -> dict[str, Any]:
        return {**super()._run_arguments(world_size), "ranks_are_kept": self._ranks_are_kept}

    @classmethod
    def _run(cls, *arguments: Any, ranks_are_kept: bool = True, **kwargs: Any) -> None:
        """Runs the rank as the base class does; ``cls`` belongs to this process, or to this thread."""
        cls._ranks_are_kept = ranks_are_kept
        super()._run(*arguments, **kwargs)

    def _run_in_rank(self, channel: Any) -> None:
        """Runs the test and then empties torch's caches of its meshes, unless the rank is fresh.

        A fresh rank ends with them: closing gloo's connections takes longer than ending the process.
        """
        try:
            super()._run_in_rank(channel)
        finally:
            if self._ranks_are_kept:
                meshes.forget_meshes()


class DTensorContinuousTestBase(LocalRanks, DTensorTestMixin, MultiProcContinuousTest):
    """A DTensor test on pooled ranks that keep their process group; consecutive classes share them.

    Where ``world_size`` is unset there is one rank per device, and ``NUM_DEVICES`` ranks where there are
    fewer than two devices.
    """

    device_type = DTensorTestMixin.device_type  # type: ignore[assignment]  # upstream's is a method in the other base
    rank_modes: tuple[str, ...] = ("pooled", "fresh", "local")

    @classmethod
    def backend_str(cls) -> str | None:
        """The backend for the device type that this world size can have."""
        return defaults.backend_for(defaults.device_type_for(_world_size_of(cls)))

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        if local.is_simulated(rank):
            local.init_group(world_size)
            return
        if defaults.device_type_for(world_size) != "cpu":
            defaults.use_device(rank)
        super()._init_pg(rank, world_size, rdvz_file)

    def _run_in_rank(self, channel: Any) -> None:
        """Runs the test and destroys the process groups that it made, except the kept one."""
        before = meshes.GroupsBefore(self)
        try:
            super()._run_in_rank(channel)
        finally:
            status = channel.result.status if channel.result is not None else None
            if status in (Status.PASSED, Status.SKIPPED):  # in other cases the ranks are replaced
                # A rank that skips alone must not wait: its peers may be in a collective.
                before.end(together=status is Status.PASSED)

    def _resolved_world_size(self) -> int:
        return _world_size_of(type(self))

    def _pool_key(self) -> Hashable:
        cls = type(self)
        return (cls.backend_str(), cls.timeout, maker_of_group(cls))


class DTensorOpTestBase(DTensorTestMixin, MultiThreadedTestCase):
    """A DTensor test on threads, whose process group exists before the test: ``with_comms`` does nothing."""

    @property
    def world_size(self) -> int:
        """The world size that the test requires (``requires_world_size``), else ``NUM_DEVICES``."""
        return get_required_world_size(self, NUM_DEVICES)

    @property
    def device_type(self) -> str:
        """The accelerator's type where there is one; all ranks then share its first device."""
        return DEVICE_TYPE

    def setUp(self) -> None:
        """Starts the ranks."""
        super().setUp()
        # A DeviceMesh's hash includes its thread's identity, which a thread of the next test may have too
        # (pytorch/pytorch#130495, relanded as pytorch/pytorch#130685).
        self.addCleanup(meshes.forget_meshes)
        self._spawn_threads()


class LocalDTensorTestBase(DTensorTestBase):
    """``DTensorTestBase`` in one process that simulates all ranks."""

    rank_modes: tuple[str, ...] = ("local",)


class LocalDTensorOpTestBase(LocalDTensorTestBase):
    """``DTensorOpTestBase`` in one process that simulates all ranks, also with a group made beforehand."""

    def _run_in_rank(self, channel: Any) -> None:
        local.init_group(self.world_size)
        super()._run_in_rank(channel)

    def init_pg(self, eager_init: bool, backend: str | None = None) -> None:
        """Does nothing: the group exists already."""

    def destroy_pg(self, device_id: int | None = None) -> None:
        """Does nothing: the group ends with the test."""


class LocalDTensorContinuousTestBase(DTensorContinuousTestBase):
    """``DTensorContinuousTestBase`` in one process that simulates all ranks."""

    rank_modes: tuple[str, ...] = ("local",)


def skip_unless_torch_gpu(method: Callable[..., Any]) -> Callable[..., Any]:
    """Skips a test on a machine with fewer than ``NUM_DEVICES`` accelerators, which is at least two."""
    decorated: Callable[..., Any] = skip_if_lt_x_gpu(2)(method)
    return decorated


def _world_size_of(cls: type[ContinuousOrchestration]) -> int:
    size = class_value(cls, "world_size")
    if size != UNSET:
        return int(size)
    return DEVICE_COUNT if DEVICE_COUNT > 1 else NUM_DEVICES


def _whole(outputs: Any) -> Any:
    return tree_map(lambda d: d.full_tensor(), outputs)


def _placements(arguments: Any) -> str:
    """The placements of the DTensors among an operator's arguments, in order, as text."""
    return ", ".join(str(d.placements) for d in tree_leaves(arguments) if isinstance(d, DTensor))
