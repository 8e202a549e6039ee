"""Writes plugin modules for the tests of ``harness/targets``, and runs Python with them in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

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
    directory: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments in the directory, from which modules can be imported."""
    path = os.pathsep.join([str(TREE), str(directory)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    kept.pop("BACKEND", None)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={**kept, "PYTHONPATH": path, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
