"""``Played``: one run of another project's test file, by pytest alone or by a way of the drop-in.

Also how long a process takes that does no more than import the file, as every way has to.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.runner.exit_codes import ExitCode
from tools.bench import junit_verdicts
from tools.bench.third_party_list import ThirdPartyFile

ROOT = Path(__file__).resolve().parents[2]
UPSTREAM, PLUGIN, RUNNER = WAYS = ("pytest", "pytest --drop-in", "run_tests.py --drop-in")
NOT_ENDED = "not ended"
# Imports a file under the name that pytest gives it, from the first directory above that is no package. No
# garbage is collected, neither meanwhile nor at the end, as it is not by the ways of the drop-in.
_IMPORT = """
import gc, importlib, pathlib, sys
gc.disable()
file = pathlib.Path(sys.argv[1]).resolve()
names, directory = [file.stem], file.parent
while (directory / "__init__.py").is_file():
    names, directory = [directory.name, *names], directory.parent
sys.path.insert(0, str(directory))
importlib.import_module(".".join(names))
gc.freeze()
"""


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a file: its seconds, and the verdicts by test; ``problem`` says why there are none.

    ``cpu_s`` is without processes that have ended and for which their parent has not waited.
    """

    wall_s: float
    verdicts: dict[str, str]
    problem: str = ""
    cpu_s: float = 0.0


def command(way: str, file: str, directory: Path) -> list[str]:
    """The command that runs a file one way and writes ``junit.xml`` into a directory."""
    if way == RUNNER:
        return [
            sys.executable,
            str(ROOT / "run_tests.py"),
            "--drop-in",
            file,
            "-q",
            f"--report-dir={directory}",
        ]
    # Neither an installed torch-harness nor a random order, in which not all files pass, is to be compared.
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:torch_harness",
        "-p",
        "no:randomly",
        f"--junitxml={directory / 'junit.xml'}",
    ]
    ours = ["-p", "harness.pytest_plugin.plugin", "--drop-in"] if way == PLUGIN else []
    return [sys.executable, "-m", "pytest", *words, *ours, file]


def environ(way: str, file: ThirdPartyFile, variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a run: this one's without the harness's variables, and the file's paths."""
    kept = {name: value for name, value in variables.items() if not name.startswith("HARNESS_")}
    # The tree stands last: a project may have a package called tools.
    paths = [*map(str, file.python_path), *([str(ROOT)] if way != UPSTREAM else [])]
    given = [
        path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", str(ROOT))
    ]
    return {**kept, "PYTHONPATH": os.pathsep.join([*given, *paths])}


def play(way: str, file: ThirdPartyFile, deadline_s: float) -> Played:
    """Runs a file one way in a process of its own; one that has not ended by the deadline is ended."""
    with tempfile.TemporaryDirectory(prefix="bench-third-party-") as directory:
        log = Path(directory, "log")
        words = command(way, file.file, Path(directory))
        code, wall_s, cpu_s = _timed(words, file, environ(way, file, os.environ), log, deadline_s)
        if code is None:
            return Played(
                wall_s, {junit_verdicts.FILE: NOT_ENDED}, f"not ended within {deadline_s:g} s", cpu_s
            )
        try:
            verdicts = junit_verdicts.read(Path(directory, "junit.xml"), Path(file.file).stem)
            return Played(wall_s, verdicts, cpu_s=cpu_s)
        except (OSError, ValueError):
            if code == ExitCode.NOTHING_RAN:  # run_tests.py writes no report then; pytest does
                return Played(wall_s, {}, cpu_s=cpu_s)
            lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
            return Played(wall_s, {}, f"exit code {code} and no junit.xml: {lines[-1]}", cpu_s)


def import_alone(file: ThirdPartyFile, deadline_s: float) -> Played | None:
    """How long a process takes that imports a file and ends, without collecting garbage.

    None where that takes longer than the deadline or fails, as it does in a file that calls ``pytest.skip``.
    """
    words = [sys.executable, "-c", _IMPORT, file.file]
    code, wall_s, cpu_s = _timed(
        words, file, environ(UPSTREAM, file, os.environ), Path(os.devnull), deadline_s
    )
    return Played(wall_s, {}, cpu_s=cpu_s) if code == 0 else None


def _timed(
    words: Sequence[str], file: ThirdPartyFile, environ: Mapping[str, str], log: Path, deadline_s: float
) -> tuple[int | None, float, float]:
    """A command's exit code (None for one that had to be ended), wall seconds and processor seconds."""
    started, used = time.monotonic(), _cpu_s()
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            cwd=file.root,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        living_s = _wait(process, deadline_s)
    code = process.returncode if living_s is None else None
    return code, time.monotonic() - started, _cpu_s() - used + (living_s or 0.0)


def _cpu_s() -> float:
    """Processor seconds of this process's children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def descendants_cpu_s(pid: int) -> float:
    """Processor seconds of the living descendants of a process, and of what these have waited for."""
    used_s = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                used_s += sum(each.cpu_times()[:4])  # user, system and those of its children
    return used_s


def _wait(process: subprocess.Popen[bytes], deadline_s: float) -> float | None:
    """None where a process ends in time, or the processor seconds of those that it has started and that run.

    What is left of its group then ends, too. Nobody waits for ranks of a file that is ended: it would seem
    to have waited for something while they computed.
    """
    try:
        process.wait(deadline_s)
        return None
    except subprocess.TimeoutExpired:
        return descendants_cpu_s(process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
