"""``alone`` and ``ended``: the end of a script that a fuzzer has printed, for tests of several fuzzers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from suites.selftest import warm_python

# Seconds in which a script ends on a busy machine.
PATIENCE_S = 300.0


def alone(script: str) -> subprocess.CompletedProcess[str]:
    """The exit code and the output of a script in a new interpreter, where it has what it imports itself."""
    return warm_python.run_new(
        ["-c", script], cwd=Path.cwd(), env=os.environ, timeout=PATIENCE_S, merged=False
    )


def ended(script: str, imports: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """The same in a fork of an interpreter that has imported torch: for one that is known to run alone."""
    return warm_python.run(
        ["-c", script],
        cwd=Path.cwd(),
        env=os.environ,
        timeout=PATIENCE_S,
        merged=False,
        imports=imports,
    )
