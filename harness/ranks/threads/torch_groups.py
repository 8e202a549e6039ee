"""Adapts torch's threaded groups to rank threads: what is recorded, which waits and sleeps pass the token on.

torch provides the groups' collectives (``threaded_group.py``) and one set of process groups per thread. This
module adds that what each rank calls is recorded, that a rank which waits releases the run token, that any
waiting rank can be woken, and that a rank whose test is over cannot use another test's groups. It imports
``torch.testing._internal``, because torch keeps its threaded group there.
"""

from __future__ import annotations

import functools
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed import multi_threaded_pg as threaded

from harness.communication.record.arguments import METHODS
from harness.communication.taps import taps
from harness.communication.taps.operator_taps import untap_operators
from harness.communication.taps.python_groups import overrides
from harness.communication.taps.tap_state import Taps
from harness.compiler_state import uncompiled
from harness.ranks.threads.rank import ThreadOwner, current
from harness.ranks.threads.threaded_group import BACKEND, ThreadedGroup, arriving, make_group, register
from harness.releases import torch_at_least
from harness.system.patching import replaced

_set_thread_isolation_mode: Any = _distributed_c10d._set_thread_isolation_mode  # type: ignore[attr-defined]  # torch's stubs lack it


class ThreadWorlds(threaded.ThreadLocalWorld):  # type: ignore[misc]  # torch is not followed
    """The state of ``torch.distributed`` (c10d's ``_world``): one per rank thread, else the parent's.

    A rank whose test is over is ended as soon as it uses any group, so that an abandoned thread does nothing
    to the groups of a later test or of the parent.
    """

    def __init__(self, ranks: ThreadOwner, before: Any) -> None:
        self.ranks = ranks
        self.before = before

    def _get_world(self) -> Any:
        rank = current()
        if rank is None:
            return self.before
        rank.stop_if_over()
        rank.world = super()._get_world()
        if not hasattr(rank.world, "comms"):  # torch 2.11's threaded world lacks it, but torch 2.11 reads it
            rank.world.comms = []
        return rank.world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._get_world(), name)


class _ThreadTaps(Taps):
    """Records each call in the log of the rank whose thread makes it."""

    @property
    def recorder(self) -> Any:
        """The recorder of the calling thread's rank; None for a thread that is no rank, and in a trace."""
        if torch.compiler.is_compiling():  # dynamo is tracing, and goes into the original
            return None
        rank = current()
        return rank.recorder if rank is not None else None

    @recorder.setter
    def recorder(self, value: Any) -> None:
        assert value is None, "each rank has its own"

    def records_itself(self, group: Any) -> bool:
        """Whether a group is one of torch's threaded ones, whose methods are called from C++ as well."""
        return isinstance(group, ThreadedGroup)

    @property
    def guard(self) -> Any:
        """What looks at a call of the calling thread's rank, so that gloo does not end the process for it."""
        rank = current()
        return rank.check_sizes if rank is not None else None

    @guard.setter
    def guard(self, value: Any) -> None:
        assert value is None, "each rank has its own"

    @property
    def values(self) -> Any:
        """The recorder of the values of the calling thread's rank; None where they are not checked."""
        rank = current()
        return rank.values if rank is not None else None

    @values.setter
    def values(self, value: Any) -> None:
        assert value is None, "each rank has its own"


# -- other calls in which a rank waits


def _waits(original: Callable[..., Any], *, for_peers: bool = True) -> Callable[..., Any]:
    """Wraps a call in which a rank may wait, to release the run token during it; only in rank threads."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # dynamo is tracing and puts the original in its graph
            return original(*args, **kwargs)
        rank = current()
        if rank is None:
            return original(*args, **kwargs)
        with rank.owner.waiting(rank, for_peers=for_peers):
            return original(*args, **kwargs)

    return uncompiled(call)


def _bounded(original: Callable[..., Any], most: timedelta) -> Callable[..., Any]:
    """Limits the timeout of a rank's groups to the test's, since a thread in gloo cannot be ended.

    gloo has no call that ends pending operations (related: pytorch/pytorch#130345).
    """

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if current() is not None and kwargs.get("timeout") is not None:
            kwargs["timeout"] = min(kwargs["timeout"], most)
        return original(*args, **kwargs)

    return call


def waiting_calls() -> Iterator[tuple[Any, str]]:
    """The functions in which ``torch.distributed`` waits for other ranks, in Python or just below."""
    yield dist.Work, "wait"
    for store in (dist.Store, dist.FileStore, dist.HashStore, dist.TCPStore, dist.PrefixStore):
        yield from ((store, name) for name in ("get", "wait", "barrier") if name in vars(store))
    yield dist.ProcessGroup, "monitored_barrier"
    yield from overrides(dist.ProcessGroup, METHODS)  # groups of Python may wait wherever they like
    yield from overrides(dist.Work, ("wait",))
    yield c10d, "_new_process_group_helper"
    yield from ((dist, name) for name in ("_broadcast_coalesced", "_verify_params_across_processes"))
    from torch.distributed import _functional_collectives as functional

    yield functional, "wait_tensor"


def sleeping_calls() -> Iterator[tuple[Any, str]]:
    """The functions in which tests sleep, or wait for a process that they started."""
    yield time, "sleep"
    yield subprocess.Popen, "wait"
    yield subprocess.Popen, "communicate"


@contextmanager
def _one_device_guard() -> Iterator[None]:
    """A region in which ranks use the stand-in CUDA device guard that the calling thread made.

    Fake tensors need the guard where torch was built for CUDA and there is no GPU. In torch 2.11 it belongs
    to the thread that made it last, and its use after the end of that thread crashes the process
    (pytorch/pytorch#178950).
    """
    ensure = getattr(torch._C, "_ensureCUDADeviceGuardSet", None)
    if ensure is None or torch_at_least("2.12") or torch.cuda.is_available():
        yield
        return
    ensure()
    with replaced(torch._C, "_ensureCUDADeviceGuardSet", lambda: None):
        yield


@contextmanager
def _recorded_by_thread(ranks: ThreadOwner) -> Iterator[Taps]:
    """A region in which what starts in C++, and DTensor's placements, are recorded for the calling rank."""
    own, of_process = _ThreadTaps(), taps.prepare()
    if of_process is None:
        raise RuntimeError("this build of torch has no torch.distributed")
    had_kernels, nests = "c10d" in of_process.libraries, of_process.nests
    of_process.of_threads = own
    try:
        yield own
    finally:
        of_process.of_threads = None
        if not had_kernels and not ranks.abandoned:  # one of those may be in such an operator
            untap_operators(of_process, nests=nests)


@contextmanager
def installed(ranks: ThreadOwner, timeout_s: float) -> Iterator[None]:
    """A region in which rank threads have their own process groups; one region at a time in a process."""
    before = c10d._world
    if isinstance(before, ThreadWorlds) and not before.ranks.over:
        raise RuntimeError("a threaded test is running already: ranks cannot start ranks")
    most = timedelta(seconds=timeout_s)
    with ExitStack() as stack:
        stack.enter_context(_one_device_guard())
        # First, because it may wrap for good what is replaced here.
        own = stack.enter_context(_recorded_by_thread(ranks))
        for owner, name in waiting_calls():
            if name in vars(owner):
                stack.enter_context(replaced(owner, name, _waits(getattr(owner, name))))
        for owner, name in sleeping_calls():
            slept = _waits(getattr(owner, name), for_peers=False)
            stack.enter_context(replaced(owner, name, slept))
        begin = arriving(threaded.ProcessLocalGroup._start_coll)
        stack.enter_context(replaced(threaded.ProcessLocalGroup, "_start_coll", begin))
        helper = _bounded(c10d._new_process_group_helper, most)
        stack.enter_context(replaced(c10d, "_new_process_group_helper", helper))
        # Around all others: a rank that has not got the run token back is still in its call.
        for owner, name, wrapper in taps.wrappers(own):
            stack.enter_context(replaced(owner, name, wrapper))
        register(make_group, extended=True)
        stack.callback(register, threaded._create_threaded_pg, extended=False)
        c10d._world = ThreadWorlds(ranks, before)
        _set_thread_isolation_mode(True)
        stack.callback(_uninstall, ranks, before)
        yield


def _uninstall(ranks: ThreadOwner, before: Any) -> None:
    """Restores the parent's groups, unless abandoned threads still need theirs to be in place."""
    _set_thread_isolation_mode(False)
    if ranks.abandoned:
        threaded.ProcessLocalGroup._coll_lock = threading.Lock()  # one of them may hold the old one
    else:
        c10d._world = before
    threaded.ProcessLocalGroup.reset()


def wake_all() -> None:
    """Ends the wait of every rank in a threaded collective by raising SystemExit in it."""
    with threaded.ProcessLocalGroup._coll_lock:
        threaded.ProcessLocalGroup.exception_handle(SystemExit())


def init_group(rank: int, world_size: int, store: Any) -> None:
    """Makes this rank's default process group on the threaded backend."""
    dist.init_process_group(backend=BACKEND, rank=rank, world_size=world_size, store=store)


def new_store() -> Any:
    """A store that all threads of the process can use."""
    return dist.HashStore()


def destroy_groups(world: Any) -> None:
    """Destroys the rank's remaining groups where one is not threaded (else see ``drop_groups``)."""
    if dist.is_initialized() and not all(isinstance(g, ThreadedGroup) for g in world.pg_map):
        dist.destroy_process_group()


def drop_groups(world: Any) -> None:
    """Drops the references to a rank's remaining groups, whose closing connections wake its peers."""
    world.default_pg = None
    for kept in vars(world).values():
        if hasattr(kept, "clear"):
            kept.clear()
