"""``main``, the command ``torch-harness run``: turns the end of a script on ranks into text and exit code."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from harness.configuration import variables
from harness.errors import HarnessError, UsageError
from harness.run.options import parse
from harness.runner.exit_codes import ExitCode
from harness.system import posix, standard_output


def main(words: Sequence[str], prog: str) -> int:
    """Runs the script that ``words`` name, and returns the exit code; ``prog`` is the command before them."""
    posix.open_standard_descriptors()
    try:
        return standard_output.while_read(lambda: _run(words, prog), ExitCode.NO_READER)
    except UsageError as error:
        return _fail(prog, f"error: {error}", ExitCode.USAGE)
    except HarnessError as error:
        return _fail(prog, f"the harness failed: {error}", ExitCode.BROKEN)
    except KeyboardInterrupt:
        return _fail(prog, "interrupted; no rank runs any more", ExitCode.INTERRUPTED)


def _run(words: Sequence[str], prog: str) -> int:
    """The exit code of the script. BrokenPipeError, once no rank runs any more, where nobody reads."""
    options = parse(words, prog)
    variables.check(os.environ, variables.read(os.environ, Path.cwd()).other_variables)
    with _ended_by_signals():
        from harness.run.launch import run  # imported late: --help and usage errors do not need it

        ended = run(options, shlex.join([*shlex.split(prog), *words]))
    _say(ended.text)
    return ended.code


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM, and SIGHUP unless it is ignored, end the ranks as Ctrl-C does."""
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _interrupt)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: types.FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _fail(prog: str, text: str, code: ExitCode) -> int:
    _say(f"{prog}: {text}")
    return int(code)


def _say(text: str) -> None:
    if text:
        with contextlib.suppress(OSError):  # standard error may be closed; the exit code is enough
            print(text, file=sys.stderr, flush=True)
