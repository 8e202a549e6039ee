"""``with_comms``: a process group before and after a test; checks its backend and binds ranks to devices."""

from __future__ import annotations

import functools
import threading
import unittest
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch
import torch.distributed as dist

from harness.cases import backend_names
from harness.cases.defaults import accelerator, backend_for, most_ranks, use_device
from harness.ranks.process_groups import live_groups
from harness.requirements import probe

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

Test = TypeVar("Test", bound=Callable[..., Any])

# Groups that a failed test gave up in a rank process. They stay in memory until the process ends: dropping
# one closes its connections, and peers that wait in a collective would then report that, perhaps before this
# rank can report its own error, which is the cause.
_given_up: list[object] = []


@overload
def with_comms(eager_init: Test) -> Test: ...


@overload
def with_comms(eager_init: bool = False, backend: str | None = None) -> Callable[[Test], Test]: ...


def with_comms(eager_init: Any = False, backend: str | None = None) -> Any:
    """Runs a test method between ``self.init_pg(eager_init, backend)`` and ``self.destroy_pg()``.

    Used bare or with arguments: ``eager_init`` binds an accelerator's group to its device at once,
    ``backend`` replaces the case's own. A case without ``init_pg`` runs only the method. After a method that
    raises, no group is left, and the method's own error is raised. Source of the contract:
    ``torch.testing._internal.distributed._tensor.common_dtensor.with_comms``.
    """
    if callable(eager_init):
        return _between(eager_init, eager_init=False, backend=None)
    return functools.partial(_between, eager_init=eager_init, backend=backend)


def _between(method: Test, *, eager_init: bool, backend: str | None) -> Any:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not hasattr(self, "init_pg"):
            return method(self, *args, **kwargs)
        try:
            self.init_pg(eager_init, backend)
            returned = method(self, *args, **kwargs)
            self.destroy_pg()
            return returned
        except BaseException:
            give_up_groups()
            raise

    return wrapper


def give_up_groups() -> None:
    """Removes all process groups from torch's state without a barrier; does nothing where there are none.

    Peers that are processes notice nothing, and the supervisor sees where they wait. For peers that are
    threads the connections are closed, because nothing else ends their wait.
    """
    if not dist.is_initialized():
        return
    if threading.current_thread() is threading.main_thread():
        _given_up.extend(live_groups())
    dist.destroy_process_group()


def check_backend(backend: str, world_size: int) -> None:
    """Checks that the ranks can use that backend ("gloo", "cpu:gloo,cuda:nccl").

    UsageError where torch knows no such backend, SkipTest where this build lacks it or it needs more devices.
    """
    backend_names.check_in_rank(backend)
    for name in backend_names.names(backend):
        if name not in probe().backends:
            raise unittest.SkipTest(f"this build of torch has no backend {name!r}")
        kind, count = accelerator()
        if kind != "cpu" and name == backend_for(kind) and most_ranks() < world_size:
            raise unittest.SkipTest(f"backend {name!r} needs {world_size} {kind} devices, not {count}")


def bound_device(backend: str, device_type: str, rank: int, *, eager_init: bool) -> torch.device | None:
    """Makes an accelerator the rank's current device, where the backend uses one.

    Returns the device that the process group is bound to at once, or None for a later binding.
    """
    kind, count = accelerator()
    if count == 0 or backend_for(kind) not in backend_names.names(backend):
        return None
    use_device(rank % count)
    return torch.device(device_type, rank % count) if eager_init else None


def meet(device_type: str, device_id: int | None) -> None:
    """Runs a barrier of all ranks on the device that the test uses."""
    if device_type == "cpu":
        dist.barrier()
        return
    own = torch.get_device_module(device_type).current_device() if device_id is None else device_id
    dist.barrier(device_ids=[own])
