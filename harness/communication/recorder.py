"""Records every collective that this rank starts in its collective log, by wrapping ProcessGroup's methods.

The wrappers are below every public function of ``torch.distributed``, so ``dist.all_reduce``, DDP, FSDP and
user code are all recorded. Collectives that a compiled graph starts without Python are not. A wrapper adds
about a microsecond to a call and changes nothing else.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from harness.communication.collective_log import ENTRIES, CollectiveLog
from harness.compiler_state import uncompiled

# The process group's method, and the public name of the operation. torch 2.13's Python code calls methods
# with "single" in their names; earlier versions call the older names, which 2.13 still has.
OPERATIONS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather_coalesced",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "all_gather_single_coalesced": "all_gather_into_tensor_coalesced",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv",
    "barrier": "barrier",
    "monitored_barrier": "monitored_barrier",
}


class Recorder:
    """Numbers the collectives of each group from 1 and pairs each with the wait on its work handle."""

    def __init__(self, log: CollectiveLog) -> None:
        self._log = log
        self._sequence: dict[str, int] = {}
        self._open: dict[int, int] = {}  # id of a work handle -> token of the log

    def restart(self) -> None:
        """Makes the numbers start from 1 again."""
        self._sequence.clear()
        self._open.clear()

    def began(self, group: Any, operation: str) -> int:
        """Records that a collective starts; returns its token."""
        name = _group_name(group)
        number = self._sequence[name] = self._sequence.get(name, 0) + 1
        return self._log.begin(operation, name, number)

    def returned(self, token: int, work: object) -> None:
        """Records that the call returned, which ends the collective unless there is a work handle."""
        if work is None:
            self._log.end(token)
            return
        if len(self._open) >= 4 * ENTRIES:
            self._open.clear()  # handles without a wait; the ring has dropped their entries long ago
        self._open[id(work)] = token

    def waited(self, work: object) -> None:
        """Records that a collective has ended, because a wait for its handle returned."""
        token = self._open.pop(id(work), None)
        if token is not None:
            self._log.end(token)


def _group_name(group: Any) -> str:
    try:
        return str(group.group_name)
    except RuntimeError:  # a group that was never registered under a name
        return "?"


class _Interceptor:
    """What the wrapped methods share: they call the originals only, until ``recorder`` is set."""

    recorder: Recorder | None = None


# The attribute of the first wrapped method that holds the interceptor.
_MARK = "__harness_interceptor__"


def install(log: CollectiveLog, *, restart: bool = True) -> bool:
    """Starts recording this rank's collectives in its log; False where torch.distributed is not in use.

    In a rank that records already, ``restart`` makes the numbers start again, because the groups are new
    ones.
    """
    interceptor = prepare()
    if interceptor is None:
        return False
    if interceptor.recorder is None:
        interceptor.recorder = Recorder(log)
    elif restart:
        interceptor.recorder.restart()
    return True


def prepare() -> _Interceptor | None:
    """Wraps the process group's methods, unless they are wrapped; servers call this before they fork ranks.

    None where torch.distributed is not in use.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    group, work = distributed.ProcessGroup, distributed.Work
    earlier: _Interceptor | None = getattr(group.allreduce, _MARK, None)
    if earlier is not None:
        return earlier
    interceptor = _Interceptor()
    for method, operation in OPERATIONS.items():
        original = getattr(group, method, None)
        if original is not None:
            setattr(group, method, _recorded(original, operation, interceptor))
    setattr(group.allreduce, _MARK, interceptor)
    work.wait = _waited(work.wait, interceptor)
    return interceptor


def _recorded(original: Callable[..., Any], operation: str, interceptor: _Interceptor) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = interceptor.recorder
        if recorder is None:
            return original(self, *args, **kwargs)
        token = recorder.began(self, operation)
        work = None
        try:
            work = original(self, *args, **kwargs)
        finally:
            recorder.returned(token, work)
        return work

    return uncompiled(method)


def _waited(original: Callable[..., Any], interceptor: _Interceptor) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        finally:
            if interceptor.recorder is not None:
                interceptor.recorder.waited(self)

    return uncompiled(wait)
