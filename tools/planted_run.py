"""One run of ``run_tests.py`` in which something is planted, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.settings import EnvVar

ROOT = Path(__file__).resolve().parents[1]
# Seconds that a run which is too long gets to end its ranks, before it is killed.
ENDING_S = 20.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a run ended: its exit code, None if it was ended because it took too long; and its last words."""

    code: int | None
    words: str


def run(
    arguments: Sequence[str],
    directory: Path,
    state: Path,
    environ: Mapping[str, str],
    *,
    seconds: float | None = None,
) -> Done:
    """Runs tests with more environment variables; the run's files are in ``directory``.

    ``state`` is its state directory, so that the user's --last-failed stays as it is. ``seconds`` is how long
    the run may take.
    """
    command = [sys.executable, str(ROOT / "run_tests.py"), *arguments, "-q", f"--report-dir={directory}"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, EnvVar.STATE_DIR: str(state), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What a planted fault has it print need not be text.
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return Done(None, f"not at its end after {seconds:g} s")
        except BaseException:
            _end(process)
            raise
    words = (err or out).strip().splitlines() or ["no output"]
    return Done(process.returncode, words[-1])


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=ENDING_S)
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
