"""``MultiProcContinuousTest``: a case whose tests share pooled ranks and the ranks' process group.

It has upstream's hooks, but a failure does not skip the rest of the class (related: ROCm/pytorch#2623): ranks
that a test leaves failed, hung, dead or dirty are replaced.
"""

from __future__ import annotations

import functools
import os
import unittest
from collections.abc import Hashable
from datetime import timedelta
from typing import Any, ClassVar

from harness.cases import backend_names, defaults
from harness.cases.multiprocess import MultiProcessTestCase, RankOrchestration
from harness.ranks import rendezvous
from harness.ranks.processes.channel import RankChannel
from harness.requirements import probe

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# Upstream's value for "one rank for each device of device_type()".
UNSET = -2


class ContinuousOrchestration(RankOrchestration):
    """``RankOrchestration`` on pooled ranks that keep one process group; see ``MultiProcContinuousTest``."""

    rank_modes: tuple[str, ...] = ("pooled", "fresh", "threads")
    world_size: Any = UNSET
    rank: int = UNSET
    rdvz_file: str | None = None
    timeout: timedelta = timedelta(seconds=120)
    pg: ClassVar[Any] = None

    # -- hooks

    @classmethod
    def backend_str(cls) -> str | None:
        """The process group's backend; None lets torch choose by device."""
        return None

    @classmethod
    def device_type(cls) -> str:
        """The device type that the class tests: the accelerator's where this machine has one, else ``"cpu"``.

        Upstream returns the device type of the torch build, which may be CUDA on a machine without a GPU.
        """
        kind, _ = defaults.accelerator()
        return kind

    @classmethod
    def opts(cls, high_priority_stream: bool = False) -> Any:
        """Options for the process group; a class that overrides this shares its ranks with no other class."""
        return None

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        """Makes the process group that the class's tests share; called once in each rank of a rank set."""
        import torch.distributed as dist

        os.environ["LOCAL_RANK"] = str(rank)
        dist.init_process_group(
            backend=class_value(cls, "backend_str"),
            world_size=world_size,
            rank=rank,
            store=rendezvous.store(rdvz_file, world_size),
            pg_options=cls.opts(),
            timeout=cls.timeout,
        )
        cls.pg = dist.group.WORLD

    @classmethod
    def _run_test_given_id(cls, test_id: str, **kwargs: Any) -> None:
        """Runs one test in a rank, on a new instance, with ``kwargs`` passed to the method."""
        name = test_id.rsplit(".", maxsplit=1)[-1]
        self = cls(name)
        self.rank, self.world_size = cls.rank, cls.world_size
        if kwargs:
            setattr(self, name, functools.partial(getattr(self, name), **kwargs))
        self._run_in_rank(_channel_of(cls))

    # -- in the parent

    def setUp(self) -> None:
        """Sends the test to its ranks, which are started if there are none to share."""
        super().setUp()
        _assign(type(self), world_size=self._resolved_world_size())
        self._check_backend()
        self._spawn_processes()

    def _resolved_world_size(self) -> int:
        wanted = self.world_size
        if wanted != UNSET:
            return int(wanted)
        import torch

        kind = class_value(type(self), "device_type")
        count = torch.get_device_module(kind).device_count()
        if count == 0:
            raise unittest.SkipTest(f"no {kind} device: set world_size to run on ranks without one")
        return int(count)

    def _check_backend(self) -> None:
        name = class_value(type(self), "backend_str")
        if isinstance(name, str) and _is_ours(type(self)._init_pg):
            backend_names.check_in_parent(name)
        if name in _KNOWN_BACKENDS and name not in probe().backends:
            raise unittest.SkipTest(f"backend {name!r} is not available")

    def _run_arguments(self, world_size: int) -> dict[str, Any]:
        return {"world_size": world_size}

    def _imports_of_ranks(self) -> list[str]:
        return ["torch.distributed", *super()._imports_of_ranks()]

    def _keeps_group(self) -> bool:
        return True

    def _pool_key(self) -> Hashable:
        cls = type(self)
        return (
            class_value(cls, "backend_str"),
            class_value(cls, "device_type"),
            cls.timeout,
            maker_of_group(cls),
        )

    # -- in a rank

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        """Uses the process group that the rank keeps, or makes it, and runs the test."""
        channel: RankChannel = parent_pipe
        _assign(cls, rank=rank, rdvz_file=file_name, world_size=kwargs["world_size"], _channel=channel)
        if "group" in channel.kept:
            import torch.distributed as dist

            _assign(cls, pg=dist.group.WORLD)
        else:
            cls._init_pg(rank, cls.world_size, file_name)
            channel.kept["group"] = file_name
            channel.ready()
        cls._run_test_given_id(f"{cls.__module__}.{cls.__qualname__}.{test_name}")

    _channel: ClassVar[RankChannel | None] = None


class MultiProcContinuousTest(ContinuousOrchestration, MultiProcessTestCase):
    """A case whose tests run on pooled ranks that keep one process group.

    Consecutive classes share ranks and group where both have the same world size, backend, device type and
    timeout, and override neither ``_init_pg`` nor ``opts``. Source of the contract:
    ``common_distributed.MultiProcContinuousTest``.
    """


_KNOWN_BACKENDS = frozenset({"nccl", "gloo", "mpi", "xccl", "ucc"})


def _assign(cls: type, **attributes: Any) -> None:
    """Sets those attributes of a class that differ from the given values.

    Each assignment invalidates Python's caches of the class's attributes (python/cpython#113480).
    """
    own = vars(cls)
    for name, value in attributes.items():
        if name not in own or (own[name] is not value and own[name] != value):
            setattr(cls, name, value)


def _channel_of(cls: type[ContinuousOrchestration]) -> RankChannel:
    assert cls._channel is not None, "_run_test_given_id is called in a rank, by _run"
    return cls._channel


def maker_of_group(cls: type[ContinuousOrchestration]) -> tuple[str, str]:
    """Who makes the class's process group: the class where it overrides that, else a class of this library.

    Classes with the same answer may share a group.
    """
    if _is_ours(cls._init_pg) and _is_ours(cls.opts):
        return (cls._init_pg.__module__, cls._init_pg.__qualname__)
    return (cls.__module__, cls.__qualname__)


def _is_ours(maker: Any) -> bool:
    """Whether a method is this library's, and no class of a user has overridden it."""
    return bool(maker.__module__.partition(".")[0] == __name__.partition(".")[0])


def class_value(cls: type, name: str) -> Any:
    """The value of a class's attribute ``name``, read without an instance.

    Users write ``backend_str``, ``device_type`` and ``world_size`` as class methods, plain attributes or
    properties.
    """
    said = getattr(cls, name)
    if isinstance(said, property):
        return said.__get__(object.__new__(cls))
    return said() if callable(said) else said
