"""``ScriptInRank``: what a rank does with a script: sets torchrun's variables, runs it, judges its end.

It stands where a test's class stands, so that launchers, ranks and the recorder know no difference.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import types
from collections.abc import Mapping
from typing import Any

from harness.outcomes import Status
from harness.ranks.exception_info import capture
from harness.ranks.processes import process_identity
from harness.ranks.result import RankResult
from harness.run import main_module
from harness.tracebacks import show_users_frames

__unittest = True  # this module's frames are left out of a failure's traceback


class ScriptInRank:
    """The class that a launch of a script names. The ranks call ``_run``, as they do for a test."""

    @classmethod
    def _run(
        cls,
        rank: int,
        method: str,
        file_name: str,
        channel: Any,
        *,
        target: str,
        by_name: bool,
        variables: list[Mapping[str, str]],
    ) -> None:
        """Runs the script and records its result on ``channel``; ``variables`` are those of each rank."""
        process_identity.be_main()
        os.environ.update(variables[rank])
        _draw_other_numbers()
        channel.record(_result(target, by_name))


def _draw_other_numbers() -> None:
    """Seeds numpy's generator anew: forked ranks would draw the same numbers, where processes do not."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


def _result(target: str, by_name: bool) -> RankResult:
    try:
        script = main_module.of_name(target) if by_name else main_module.of_file(target)
        script.run()
        threading._shutdown()  # type: ignore[attr-defined]  # what Python does at its end: waits for threads
    except SystemExit as ending:
        return _exited(ending)
    except BaseException as error:  # noqa: BLE001 - whatever the script raises is its result
        return _raised(error)
    return RankResult(Status.PASSED)


def _exited(ending: SystemExit) -> RankResult:
    """The result of ``sys.exit``, which prints what is no exit code, as Python does."""
    if ending.code is not None and not isinstance(ending.code, int):
        print(ending.code, file=sys.stderr)
    result = RankResult(Status.ERROR, capture(ending), ending=ending)
    if result.requested_exit_code:
        return result
    threading._shutdown()  # type: ignore[attr-defined]  # as above
    return RankResult(Status.PASSED)


def _raised(error: BaseException) -> RankResult:
    """The result of an uncaught exception, of which ``sys.excepthook`` is told, as Python does.

    Threads are not waited for, unlike at Python's end: they may wait for ranks that have to hear of it.
    """
    if not _from_script(error.__traceback__):
        error.__traceback__ = None
    show_users_frames(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:  # noqa: BLE001 - a script's hook must not replace its failure
        traceback.print_exc()
    info = capture(error)
    return RankResult(Status.FAILED if info.is_assertion else Status.ERROR, info)


# What reads a script before it runs: a script that does not compile has no frame of its own.
_READERS = frozenset({"harness", "importlib", "_frozen_importlib", "_frozen_importlib_external"})


def _from_script(trace: types.TracebackType | None) -> bool:
    """Whether the script ran when it was raised; Python shows no traceback of one that was only read."""
    frames = (frame for frame, _ in traceback.walk_tb(trace))
    return any(str(f.f_globals.get("__name__")).partition(".")[0] not in _READERS for f in frames)
