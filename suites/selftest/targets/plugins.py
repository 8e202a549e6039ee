"""Writes plugin modules for the tests of ``harness/targets``, and runs Python with them in a process."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path

from suites.selftest import warm_python

TREE = Path(__file__).resolve().parents[3]

#: A plugin with one target, whose backend is never made.
GOOD = """
import torch.distributed as dist
from harness.targets import FLOATS, Target, collectives
dist.Backend.register_backend("mine", lambda *arguments: None, devices=["cpu"])
TARGET = Target("mine", "cpu", collectives(FLOATS))
"""


def write(directory: Path, name: str, source: str) -> None:
    """Writes a module."""
    (directory / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")


def run(
    directory: Path, *arguments: str, environ: Mapping[str, str] | None = None, warm: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments in the directory, from which modules can be imported.

    Where ``warm``, torch has been imported before.
    """
    path = os.pathsep.join([str(TREE), str(directory)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    kept.pop("BACKEND", None)
    env = {**kept, "PYTHONPATH": path, **(environ or {})}
    runs = warm_python.run if warm else warm_python.run_new
    return runs(arguments, cwd=directory, env=env, timeout=300, merged=False)
