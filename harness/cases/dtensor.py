"""The bases of DTensor tests: one mixin, and a class for each rank mode to begin with.

    DTensorTestMixin + MultiProcessTestCase      fresh ranks      DTensorTestBase
                     + MultiProcContinuousTest   pooled ranks     DTensorContinuousTestBase
                     + MultiThreadedTestCase     threads          DTensorOpTestBase
    any of them, rank_modes = ("local",)         local tensors    LocalDTensorTestBase, ...

Source of the contract: ``torch.testing._internal.distributed._tensor.common_dtensor``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch._dynamo  # DTensor's first operator asks for it, in every rank: a second of imports each
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from harness.cases import comms, defaults, meshes
from harness.cases.comms import with_comms
from harness.cases.continuous import UNSET, ContinuousOrchestration, MultiProcContinuousTest, hook
from harness.cases.dtensor_converter import DTensorConverter
from harness.cases.local_ranks import (
    LocalRanks,
    create_local_tensor_test_class,
    map_local_for_rank,
    map_local_tensor_for_rank,
    reduce_local_int,
)
from harness.cases.multiprocess import MultiProcessTestCase
from harness.cases.subtests import run_subtests
from harness.cases.threaded import MultiThreadedTestCase
from harness.outcomes import Status
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

# The mixin goes before a class that has RankOrchestration, and calls what it overrides there.
if TYPE_CHECKING:
    from harness.cases.multiprocess import RankOrchestration as _Ranks
else:
    _Ranks = object


class DTensorTestMixin(_Ranks):
    """What a DTensor test has at hand, whatever its ranks are."""

    @property
    def is_local_tensor_enabled(self) -> bool:
        """Whether one process plays all ranks of this test."""
        return False

    @property
    def device_type(self) -> str:
        """The accelerator's type where there is one device a rank, else ``"cpu"``."""
        return defaults.device_type_for(self.world_size)

    def setUp(self) -> None:
        """Makes torch's sharding propagation fit for ranks that are threads; the class's own ``setUp``."""
        self._lock_propagation()
        super().setUp()

    def _lock_propagation(self) -> None:
        # All ranks of the process trace shapes through one fake mode, which is not made for threads.
        if hasattr(ShardingPropagator, "_fake_mode_lock"):
            locked = mock.patch.object(ShardingPropagator, "_fake_mode_lock", threading.Lock())
            locked.start()
            self.addCleanup(locked.stop)

    def build_device_mesh(self) -> DeviceMesh:
        """A mesh of one dimension over all ranks."""
        with local.outside():
            return init_device_mesh(self.device_type, (self.world_size,))

    def init_manual_seed_for_rank(self) -> None:
        """Gives each rank random numbers of its own: the same ones every time, and in every rank mode."""
        torch.manual_seed(self.rank)

    def run_subtests(
        self,
        subtest_config: Mapping[str, Sequence[Any]],
        test_fn: Callable[..., object],
        *args: Any,
        **kw: Any,
    ) -> None:
        """``harness.run_subtests`` on this case."""
        run_subtests(self, subtest_config, test_fn, *args, **kw)

    def _test_op(self, mesh: DeviceMesh, op_call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Fails unless an operator gives the same on its arguments and on every sharding of them.

        The outputs on DTensors have to be DTensors, in the structure of the outputs on plain tensors.
        """
        expected = op_call(*args, **kwargs)
        converter = DTensorConverter(mesh, args, kwargs)
        for dist_args, dist_kwargs in converter:
            self.assertTrue(converter.successful(), "an argument cannot be distributed, or none is a tensor")
            found = op_call(*dist_args, **dist_kwargs)
            self.assertEqual(_whole(found), expected, f"with {_placements((dist_args, dist_kwargs))}")

    def _test_op_on_dtensor(self, op_call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Fails unless an operator commutes with gathering: on DTensors and then whole, or whole first."""
        whole_args, whole_kwargs = tree_map_only(
            DTensor, lambda d: d.full_tensor().detach().clone(), (args, kwargs)
        )
        expected = tree_leaves(op_call(*whole_args, **whole_kwargs))
        found = tree_leaves(_whole(op_call(*args, **kwargs)))
        self.assertEqual(found, expected, f"with {_placements((args, kwargs))}")


class DTensorTestBase(LocalRanks, DTensorTestMixin, MultiProcessTestCase):
    """A DTensor test on fresh ranks, with ``with_comms`` to make its process group.

    ``HARNESS_RANKS`` may ask for pooled ranks, for threads, or for local tensors.
    """

    rank_modes: tuple[str, ...] = ("fresh", "pooled", "threads", "local")
    _groups_made = 0
    _ranks_are_kept = True

    @property
    def world_size(self) -> int:
        """What the test requires (``requires_world_size``), else ``NUM_DEVICES``."""
        return get_required_world_size(self, NUM_DEVICES)

    @property
    def backend(self) -> str:
        """The backend of ``init_pg`` where the test names none; for ``device_type``."""
        return defaults.backend_for(self.device_type)

    def setUp(self) -> None:
        """Starts the ranks."""
        super().setUp()
        self._spawn_processes()

    def init_pg(self, eager_init: bool, backend: str | None = None) -> None:
        """Makes the default process group in this rank.

        ``eager_init`` binds it to an accelerator at once. UsageError for a backend that torch does not know;
        SkipTest for one that this machine cannot give to so many ranks.
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
            store=dist.FileStore(self._rendezvous(), self.world_size),
            device_id=comms.bound_device(name, self.device_type, self.rank, eager_init=eager_init),
        )

    def _rendezvous(self) -> str:
        """A file a group: the store of one group removes its file whenever its last rank is gone."""
        self._groups_made += 1
        return self.file_name if self._groups_made == 1 else f"{self.file_name}.{self._groups_made}"

    def destroy_pg(self, device_id: int | None = None) -> None:
        """Destroys all process groups when every rank is here; nothing happens where the test did it."""
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
        """As the case's own; the class is this process's, or a thread's own subclass."""
        cls._ranks_are_kept = ranks_are_kept
        super()._run(*arguments, **kwargs)

    def _run_in_rank(self, channel: Any) -> None:
        """Runs the test, and leaves nothing of its meshes to a next one; closing gloo's connections takes a
        fresh rank longer than ending."""
        try:
            super()._run_in_rank(channel)
        finally:
            if self._ranks_are_kept:
                meshes.forget_meshes()


class DTensorContinuousTestBase(LocalRanks, DTensorTestMixin, MultiProcContinuousTest):
    """A DTensor test on pooled ranks that keep their process group; consecutive classes share them.

    ``world_size`` unset is one rank a device, and ``NUM_DEVICES`` where there are fewer than two.
    """

    device_type = DTensorTestMixin.device_type  # type: ignore[assignment]  # upstream's is a method in the other base
    rank_modes: tuple[str, ...] = ("pooled", "fresh", "local")

    @classmethod
    def backend_str(cls) -> str | None:
        """The backend for the device type that so many ranks can have."""
        return defaults.backend_for(defaults.device_type_for(_world_size_of(cls)))

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        if local.is_simulated(rank):
            local.init_group(world_size)
            return
        if defaults.device_type_for(world_size) != "cpu":
            torch.accelerator.set_device_index(rank)
        super()._init_pg(rank, world_size, rdvz_file)

    def _run_in_rank(self, channel: Any) -> None:
        """Runs the test; the groups of meshes that it made end with it, as the one that is kept does not."""
        before = meshes.GroupsBefore(self)
        try:
            super()._run_in_rank(channel)
        finally:
            status = channel.result.status if channel.result is not None else None
            if status in (Status.PASSED, Status.SKIPPED):  # ranks that did otherwise are not kept
                # One that skips alone would wait for ever for those that it left in a collective.
                before.end(together=status is Status.PASSED)

    def _resolved_world_size(self) -> int:
        return _world_size_of(type(self))

    def _pool_key(self) -> Hashable:
        cls, base = type(self), DTensorContinuousTestBase
        plain = cls._init_pg.__func__ is base._init_pg.__func__ and cls.opts.__func__ is base.opts.__func__  # type: ignore[attr-defined]  # class methods
        own = () if plain else (cls.__module__, cls.__qualname__)
        return ("dtensor", cls.backend_str(), cls.timeout, own)


class DTensorOpTestBase(DTensorTestMixin, MultiThreadedTestCase):
    """A DTensor test on threads, whose process group is there already: ``with_comms`` does nothing."""

    @property
    def world_size(self) -> int:
        """What the test requires (``requires_world_size``), else ``NUM_DEVICES``."""
        return get_required_world_size(self, NUM_DEVICES)

    @property
    def device_type(self) -> str:
        """The accelerator's type where there is one, whose first device all ranks then share."""
        return DEVICE_TYPE

    def setUp(self) -> None:
        """Starts the ranks."""
        super().setUp()
        # Meshes are told apart by their thread's number, which a thread of the next test may be given.
        self.addCleanup(meshes.forget_meshes)
        self._spawn_threads()


class LocalDTensorTestBase(DTensorTestBase):
    """``DTensorTestBase`` with one process that plays all ranks."""

    rank_modes: tuple[str, ...] = ("local",)


class LocalDTensorOpTestBase(LocalDTensorTestBase):
    """``DTensorOpTestBase`` with one process that plays all ranks; their group is there already, too."""

    def _run_in_rank(self, channel: Any) -> None:
        local.init_group(self.world_size)
        super()._run_in_rank(channel)

    def init_pg(self, eager_init: bool, backend: str | None = None) -> None:
        """The group is there."""

    def destroy_pg(self, device_id: int | None = None) -> None:
        """The group ends with the test."""


class LocalDTensorContinuousTestBase(DTensorContinuousTestBase):
    """``DTensorContinuousTestBase`` with one process that plays all ranks."""

    rank_modes: tuple[str, ...] = ("local",)


def skip_unless_torch_gpu(method: Callable[..., Any]) -> Callable[..., Any]:
    """Skips a test on a machine without ``NUM_DEVICES`` accelerators; with two or more there are as many."""
    decorated: Callable[..., Any] = skip_if_lt_x_gpu(2)(method)
    return decorated


def _world_size_of(cls: type[ContinuousOrchestration]) -> int:
    size = hook(cls, "world_size")
    if size != UNSET:
        return int(size)
    return DEVICE_COUNT if DEVICE_COUNT > 1 else NUM_DEVICES


def _whole(outputs: Any) -> Any:
    return tree_map(lambda d: d.full_tensor(), outputs)


def _placements(arguments: Any) -> str:
    """The placements of the DTensors among an operator's arguments, in order."""
    return ", ".join(str(d.placements) for d in tree_leaves(arguments) if isinstance(d, DTensor))
