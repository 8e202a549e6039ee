"""Where calls are seen: what of torch is wrapped so that each communication call of a rank is recorded.

Calls of Python are seen here, at the methods of ``ProcessGroup``, below every public function, at a price of
microseconds; so is the making of groups. Waits are seen in ``work_taps.py``, what starts in C++ in
``operator_taps.py``, DTensor's placements in ``layout_taps.py``, stores in ``store_taps.py``, remote calls in
``rpc_taps.py``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from harness.communication.call_log import CallLog
from harness.communication.record.arguments import KINDS, METHODS, of_method
from harness.communication.record.call_keys import quick_key
from harness.communication.record.chaos import Chaos, recorder
from harness.communication.record.memory_use import used_by
from harness.communication.record.reduce_operations import tap_options
from harness.communication.record.user_lines import know
from harness.communication.taps.group_shutdown import awaiting, noting
from harness.communication.taps.layout_taps import tap_layouts
from harness.communication.taps.operator_taps import tap_backward, tap_functional, tap_reducer
from harness.communication.taps.python_groups import named, on_each_subclass, overrides
from harness.communication.taps.rpc_taps import rpc_wrappers
from harness.communication.taps.store_taps import store_wrappers, watch_stores_of_python
from harness.communication.taps.tap_state import Taps
from harness.communication.taps.work_taps import WORK_METHODS, chaining, of_work, waiting
from harness.compiler_state import uncompiled

if TYPE_CHECKING:
    from harness.communication.record.recorder import Recorder
    from harness.communication.tensor_values.value_recorder import ValueRecorder

# The attribute of the first wrapped method that holds the taps.
_MARK = "__harness_taps__"


def install(
    log: CallLog,
    *,
    restart: bool = True,
    values: Callable[[bytes], object] | None = None,
    chaos: Chaos | None = None,
) -> bool:
    """Starts recording this rank's calls in its log; False where torch.distributed is not in use.

    In a rank that records already, ``restart`` makes the numbers start again, because the groups are new
    ones. ``values`` takes the records of what calls are given and give, where these are to be checked.
    ``chaos`` delays the rank around its calls.
    """
    taps = prepare()
    if taps is None:
        return False
    taps.values = None if values is None else value_recorder(log, values)
    if taps.recorder is None or taps.chaos != chaos:
        taps.recorder, taps.chaos = _recorder(taps, log, chaos), chaos
    elif restart:
        taps.recorder.restart()
    else:
        taps.recorder.forget_calls()
    return True


def _recorder(taps: Taps, log: CallLog, chaos: Chaos | None) -> Recorder:
    spare, taps.spare = taps.spare, None
    if spare is None or chaos is not None:
        return recorder(log, members_of, chaos)
    spare.write_to(log)
    return spare


def value_recorder(log: CallLog, append: Callable[[bytes], object]) -> ValueRecorder:
    """The recorder of the values of a rank's calls; imports numpy, as nothing else here does."""
    from harness.communication.tensor_values.value_recorder import ValueRecorder

    return ValueRecorder(log, append)


def prepare() -> Taps | None:
    """Wraps torch's functions, unless they are wrapped; servers call this before they fork ranks.

    None where torch.distributed is not in use.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    group = distributed.ProcessGroup
    earlier: Taps | None = getattr(group.allreduce, _MARK, None)
    if earlier is not None:
        tap_layouts(earlier)
        return earlier
    taps = Taps()
    watch_stores_of_python(distributed.Store, taps)
    for owner, name, wrapper in wrappers(taps):
        setattr(owner, name, wrapper)
    on_each_subclass(group, METHODS, lambda method, name: _of_subclass(method, name, taps))
    on_each_subclass(distributed.Work, WORK_METHODS, lambda method, name: of_work(method, name, taps))
    setattr(group.allreduce, _MARK, taps)
    tap_options(distributed)
    tap_functional(taps)
    tap_reducer(distributed, taps)
    tap_backward(taps)
    tap_layouts(taps)
    know(distributed.distributed_c10d)
    return taps


def leave_this_thread_out() -> None:
    """Records nothing of what the calling thread does: it is one of the harness, and no rank's."""
    taps = prepare()
    if taps is not None:
        taps.nests = taps.seen.now = True


def wrappers(taps: Taps) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """What records the calls of Python: owners, names, and the functions to put there.

    The owners are torch's classes, and those that Python has made of them.
    """
    distributed: Any = sys.modules["torch.distributed"]
    group, work, c10d = distributed.ProcessGroup, distributed.Work, distributed.distributed_c10d
    own = [(group, name) for name in METHODS if hasattr(group, name)]
    for owner, name in own:
        yield owner, name, recorded(getattr(owner, name), name, METHODS[name], taps)
    for owner, name in overrides(group, METHODS):
        yield owner, name, _of_subclass(getattr(owner, name), name, taps)
    own = [(work, name) for name in WORK_METHODS if hasattr(work, name)]
    for owner, name in (*own, *overrides(work, WORK_METHODS)):
        yield owner, name, of_work(getattr(owner, name), name, taps)
    future = sys.modules["torch"].Future
    yield future, "wait", waiting(future.wait, taps)
    yield future, "then", chaining(future.then, lambda future, *_, **__: (future,), taps)
    cpp = sys.modules["torch"]._C  # where both torch.futures.collect_all and wait_all ask for one of several
    yield cpp, "_collect_all", chaining(cpp._collect_all, lambda *a, **k: (*a, *k.values())[0], taps)
    recorded_making = making(c10d._new_process_group_helper, taps)
    yield c10d, "_new_process_group_helper", noting(recorded_making, taps)
    yield group, "shutdown", awaiting(group.shutdown, taps)
    yield from store_wrappers(distributed, taps)
    yield from rpc_wrappers(taps)


def members_of(group: Any) -> tuple[int, ...]:
    """The global ranks of a group in group order; () where it is not one that torch knows."""
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    ranks = c10d._world.pg_group_ranks.get(group)
    return tuple(sorted(ranks, key=ranks.__getitem__)) if ranks else ()


# -- methods of ProcessGroup


def recorded(original: Callable[..., Any], method: str, operation: str, taps: Taps) -> Callable[..., Any]:
    """A method of ``ProcessGroup`` that records its calls."""
    key, used, numbered = quick_key(operation), used_by(operation), operation not in KINDS
    seen = taps.seen
    plain: type[Any] = sys.modules["torch.distributed"].Work

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder, nests = taps.recorder, taps.nests
        if recorder is None or (nests and seen.now):
            return original(self, *args, **kwargs)
        kept = None
        try:
            told, own_work = key(args, kwargs)
            token = recorder.again(self, told, own_work, numbered)
            if token is None:
                given = (operation, method, args, kwargs)
                token = recorder.began(self, operation, told, of_method, given, own_work)
            if not own_work and recorder.pending.calls:
                recorder.meets(operation, used(args, kwargs))
            if taps.values is not None:
                kept = taps.values.began(token, operation, of_method(operation, method, args, kwargs))
        except (AttributeError, TypeError, ValueError):
            # Symbolic shapes, or arguments that are wrong: torch says in what.
            return original(self, *args, **kwargs)
        if nests:
            seen.now = True
        try:
            if taps.guard is not None:
                taps.guard(token)
            work = original(self, *args, **kwargs) if kwargs else original(self, *args)
        except BaseException as error:
            recorder.refused(token, self, operation, error)
            if taps.values is not None and kept is not None:
                taps.values.raised(kept)
            raise
        finally:
            if nests:
                seen.now = False
        if own_work or work is None or taps.chaos is not None:
            recorder.returned(token, work, own_work)
        else:  # the same for a usual call, without a function more
            recorder.open[id(work)] = token
        if own_work and type(work) is plain:  # one of Python writes to its tensors as a test would
            given = (operation, method, args, kwargs)
            recorder.watches(operation, used(args, kwargs), of_method, given, work)
        if kept is not None and taps.values is not None:
            taps.values.returned(kept, work)
        return work

    return uncompiled(named(call, method))


def _of_subclass(original: Callable[..., Any], name: str, taps: Taps) -> Callable[..., Any]:
    """A group that is written in Python calls others, or the method that it hides."""
    taps.nests = True
    return recorded(original, name, METHODS[name], taps)


# -- making groups


def making(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    """The function by which torch makes a group, with a record of it."""

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None or len(args) < 6:  # torch itself gives these by position in each release
            return original(*args, **kwargs)
        group_size, group_rank, members, _, _, group_name, *_ = args
        name = str(group_name)
        timeout = kwargs.get("timeout")
        default = not members
        token = recorder.makes_group(
            name,
            tuple(range(group_size)) if default else tuple(members),
            default=default,
            waits=default or group_rank is not None,  # None: not a member
            timeout_s=timeout.total_seconds() if timeout is not None else None,
        )
        try:
            return original(*args, **kwargs)
        finally:
            recorder.ended(token)

    return uncompiled(make)
