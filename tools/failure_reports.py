"""Runs the failing tests of docs/reports/test_reports.py, and writes what they print where the pages show it.

    python -m tools.failure_reports

Each test's report is a text beside that module, with paths relative to it. ``harness/report`` decides what is
in them: after a change there, run this again. The README's picture is what ``torch-harness`` prints of one of
the tests, in colours, as an SVG.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

TREE = Path(__file__).resolve().parents[1]
REPORTS = TREE / "docs" / "reports"
MODULE = REPORTS / "test_reports.py"
PICTURED = "left"
COLUMNS = 110

_RULE = "=" * 70
_THIN_RULE = "-" * 70


def printed() -> str:
    """What unittest prints of all tests of the module."""
    return _output(sys.executable, MODULE.name)


def reports(text: str) -> dict[str, str]:
    """The report of each test by its name without ``test_``: a failure's block, else the warning's line."""
    found = {}
    for block in text.split(f"\n{_RULE}\n")[1:]:
        report = block.split(f"\n\n{_THIN_RULE}\n")[0].strip()
        found[report.split()[1].removeprefix("test_")] = report + "\n"
    for line in text.splitlines():
        if warned := re.search(r"RankLeakWarning: .*\.test_(\w+): .*", line):
            found[warned[1]] = f"{warned[0]}\n"
    return found


def picture(name: str) -> str:
    """An SVG of what the installed command prints of one test, in its colours."""
    command = str(Path(sys.executable).with_name("torch-harness"))
    text = _output(command, "--color", "always", MODULE.name, "-k", f"test_{name}")
    shown = text.split("\x1b[1m-- slowest")[0].rstrip()
    console = Console(record=True, file=io.StringIO(), width=COLUMNS)
    console.print(Text.from_ansi(f"$ torch-harness {MODULE.name} -k test_{name}\n{shown}"))
    drawn = console.export_svg(title="torch-harness", unique_id="report")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # fonts from another site


def _output(*command: str) -> str:
    """What a command prints beside a copy of the module; paths are relative to it or to libraries."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(MODULE, directory)
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(TREE), "COLUMNS": str(COLUMNS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        text = done.stdout.replace(f"{os.path.realpath(directory)}/", "")
    return re.sub(r'(?<=")/[^"]*?/(?=(?:site-packages/torch|unittest)/)', "", text)


def main() -> None:
    """Writes the texts and the picture."""
    for name, report in reports(printed()).items():
        (REPORTS / f"{name}.txt").write_text(report, encoding="utf-8")
    (REPORTS / "picture.svg").write_text(picture(PICTURED), encoding="utf-8")


if __name__ == "__main__":
    main()
