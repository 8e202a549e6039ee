"""Where remote calls are seen: what of ``torch.distributed.rpc`` waits for one worker, or for all of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.communication.analysis.rpc_workers import JOINING, LEAVING
from harness.communication.taps.tap_state import Taps
from harness.compiler_state import uncompiled


def rpc_wrappers(taps: Taps) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """What records remote calls: owners, names, and the functions to put there; none where RPC is not there.

    These are functions that torch calls itself, as a test may have the public ones by other names; but for
    ``shutdown``, since no other function lasts as long as that: by another name its end alone is seen.
    """
    rpc: Any = sys.modules.get("torch.distributed.rpc")
    if rpc is None or not rpc.is_available():
        return
    api = rpc.api
    group_s = rpc.constants.DEFAULT_PROCESS_GROUP_TIMEOUT.total_seconds()
    yield rpc.backend_registry, "init_backend", _joining(rpc.backend_registry.init_backend, group_s, taps)
    yield api, "_invoke_rpc", _asking(api._invoke_rpc, api, taps)
    yield api.PyRRef, "to_here", _fetching(api.PyRRef.to_here, api, taps)
    shutdown = _leaving(api.shutdown, api, taps)
    yield api, "shutdown", shutdown
    yield rpc, "shutdown", shutdown
    yield api, "_finalize_shutdown", _ending(api._finalize_shutdown, api, taps)


def _joining(original: Callable[..., Any], group_s: float, taps: Taps) -> Callable[..., Any]:
    """``group_s``: how long workers wait for each other to make the process group of their agents."""

    @functools.wraps(original)
    def init_backend(*args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None or taps.seen.now or not {"name", "store"} <= kwargs.keys():
            return original(*args, **kwargs)
        timeout_s = group_s
        if kwargs["store"].has_extended_api():  # gloo waits by the call of such a store that has its timeout
            timeout_s = min(group_s, kwargs["store"].timeout.total_seconds())
        workers = int(kwargs.get("world_size") or 0)
        token = recorder.meets_workers(JOINING, kwargs["name"], workers, timeout_s)
        found = _recorded(lambda: original(*args, **kwargs), token, taps)
        recorder.has_agent(token)
        return found

    return uncompiled(init_backend)


def _leaving(original: Callable[..., Any], api: Any, taps: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def shutdown(graceful: bool = True, timeout: float = 0) -> Any:
        recorder = taps.recorder
        if recorder is None or taps.seen.now or not api._is_current_rpc_agent_set():
            return original(graceful, timeout)
        agent = api._get_current_rpc_agent()
        # Where workers come and go, nobody waits for others to leave.
        waits = graceful and getattr(agent, "is_static_group", True)
        workers = len(agent.get_worker_infos()) if waits else 0
        token = recorder.meets_workers(LEAVING, agent.get_worker_info().name, workers, timeout or None)
        found = _recorded(lambda: original(graceful, timeout), token, taps)
        recorder.has_agent(-1)
        return found

    return uncompiled(shutdown)


def _ending(original: Callable[..., Any], api: Any, taps: Taps) -> Callable[..., Any]:
    """What ends each shutdown: one by another name than those that are wrapped is recorded from here."""

    @functools.wraps(original)
    def finalize_shutdown() -> Any:
        recorder = taps.recorder
        if recorder is None or taps.seen.now or not api._is_current_rpc_agent_set():
            return original()
        token = recorder.meets_workers(LEAVING, api._get_current_rpc_agent().get_worker_info().name, 0, None)
        found = _recorded(original, token, taps)
        recorder.has_agent(-1)
        return found

    return uncompiled(finalize_shutdown)


def _recorded(call: Callable[[], Any], token: int, taps: Taps) -> Any:
    """Makes a call that is recorded, without what it asks of workers by itself."""
    recorder, raised = taps.recorder, True
    taps.nests = True
    try:
        with taps.unseen():
            found = call()
        raised = False
        return found
    finally:
        if recorder is not None:
            recorder.ended(token, raised=raised)


def _asking(original: Callable[..., Any], api: Any, taps: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def invoke(to: Any, func: Any, rpc_type: Any, *args: Any, **kwargs: Any) -> Any:
        future = original(to, func, rpc_type, *args, **kwargs)
        recorder = taps.recorder
        if recorder is not None and not taps.seen.now:
            worker = api._to_worker_info(to).name
            token = recorder.asks_worker(f"rpc_{rpc_type.value}", worker, waits=False)
            recorder.ended(token)  # until somebody waits for it
            recorder.futures.add((token,), future)
        return future

    return uncompiled(invoke)


def _fetching(original: Callable[..., Any], api: Any, taps: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def to_here(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None or taps.seen.now or not api._is_current_rpc_agent_set():
            return original(self, *args, **kwargs)
        token = recorder.asks_worker("to_here", self.owner_name(), waits=True)
        return _recorded(lambda: original(self, *args, **kwargs), token, taps)

    return uncompiled(to_here)
