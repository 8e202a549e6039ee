"""Runs a script in a fresh process of an interpreter, and says how it failed, if it did."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.fuzzing.signature import Failure, of_script

#: Seconds that a script may take more than its program, which begins in a process that has imported torch.
START_S = 60.0
# Variables that this process may have inherited and that must not decide how a script ends.
_OWN = ("HARNESS_", "PYTHON", "TORCH", "MASTER_")


def run_script(text: str, limit_s: float, python: str = sys.executable) -> tuple[Failure | None, str]:
    """Runs a script in a fresh process of an interpreter: how it failed, if it did, and what it said last."""
    with tempfile.TemporaryDirectory(prefix="harness-hunt-") as directory:
        path = Path(directory, "script.py")
        path.write_text(text, encoding="utf-8")
        return run_file(path, limit_s, python, cwd=directory)


def run_file(
    path: Path, limit_s: float, python: str = sys.executable, cwd: str | None = None
) -> tuple[Failure | None, str]:
    """``run_script`` for a script that is a file."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(_OWN)}
    process = subprocess.Popen(
        [python, str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**variables, "OMP_NUM_THREADS": "1"},
        cwd=cwd,
        text=True,
        errors="replace",
        start_new_session=True,  # so that what the script starts can be ended with it
    )
    try:
        said, _ = process.communicate(timeout=limit_s)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        code, said = None, ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    return of_script(code, said), said
