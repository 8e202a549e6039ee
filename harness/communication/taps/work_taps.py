"""Where waits are seen: what of work handles and futures is wrapped so that a rank's waits are recorded.

A test learns that a call is over by a wait, by asking its handle, or by a future that is made of it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from time import monotonic  # by name, as in the log
from typing import TYPE_CHECKING, Any

from harness.communication.call_log import CHANGED, DOUBLES, ENTRIES, FIRST_END
from harness.communication.taps.python_groups import named
from harness.communication.taps.tap_state import Taps
from harness.compiler_state import uncompiled

if TYPE_CHECKING:
    from harness.communication.record.recorder import Recorder

# Methods of Work by which a test learns otherwise that a call is over, or has others wait for it.
_ASKING = ("is_completed", "get_future", "synchronize", "block_current_stream")
WORK_METHODS = ("wait", *_ASKING)


def of_work(original: Callable[..., Any], name: str, taps: Taps) -> Callable[..., Any]:
    """One of the ``WORK_METHODS`` that records what the test learns by it."""
    return waiting(original, taps) if name == "wait" else _asking(original, name, taps)


def waiting(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    """The ``wait`` of work handles or futures that records when it begins and ends."""
    general = _any_wait(original, taps)

    @functools.wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None:
            return original(self, *args, **kwargs)
        if args or kwargs or taps.values or taps.chaos or recorder.not_waited or recorder.futures.tokens_of:
            return general(recorder, self, args, kwargs)
        try:
            found = original(self)
        except BaseException:
            recorder.waited(self, True)
            raise
        token = recorder.open.pop(id(self), None)
        log = recorder.log
        if token is None:
            recorder.waited(self)
        elif token >= 0 and log.count - token <= ENTRIES:  # written out: see usual_calls.py
            times = log.times
            times[token % ENTRIES * DOUBLES + FIRST_END] = times[CHANGED] = monotonic()
        return found

    return uncompiled(wait)


def _any_wait(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    """What records any wait, also where calls are under way for which the rank does not wait at once."""

    def wait(recorder: Recorder, work: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bounded = bool(args or kwargs)
        if bounded or recorder.not_waited or recorder.futures.tokens_of:
            recorder.waits(work, bounded)
        try:
            found = original(work, *args, **kwargs)
        except BaseException:
            if bounded and _goes_on(work, taps):
                recorder.gave_up(work)
                raise
            recorder.waited(work, True)
            if taps.values is not None:
                taps.values.waited(work, raised=True)
            raise
        recorder.waited(work)
        if taps.values is not None:
            taps.values.waited(work)
        return found

    return uncompiled(wait)


def _goes_on(work: Any, taps: Taps) -> bool:
    """Whether a call is under way whose wait has raised: a future says nothing of that."""
    if not isinstance(work, sys.modules["torch.distributed"].Work):
        return False
    seen, taps.seen.now = taps.seen.now, True
    try:
        return not work.is_completed()
    finally:
        taps.seen.now = seen


def _asking(original: Callable[..., Any], name: str, taps: Taps) -> Callable[..., Any]:
    answers = name == "is_completed"

    @functools.wraps(original)
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        recorder = taps.recorder
        if recorder is not None and not taps.seen.now and (found or not answers):
            if name == "get_future":
                recorder.gives_future(self, found)
            else:
                recorder.learns_of(self)
            if taps.values is not None and answers:
                taps.values.learnt_of(self)
        return found

    return uncompiled(named(ask, name))


def chaining(
    original: Callable[..., Any], of: Callable[..., Iterable[Any]], taps: Taps
) -> Callable[..., Any]:
    """What makes a future that stands for the calls of those that ``of`` takes of its arguments."""

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if taps.recorder is not None and taps.recorder.futures.tokens_of:
            taps.recorder.chains(of(*args, **kwargs), made)
        return made

    return uncompiled(make)
