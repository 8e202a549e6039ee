"""Shows what changed between the graphs of two torch releases, test by test, as a unified diff.

    python tools/graph_diff.py --old ~/torch-2.12/bin/python suites.aot.test_export
    python tools/graph_diff.py --old 2.12/bin/python --new 2.13/bin/python aot.test_functions.FunctionTest
    python tools/graph_diff.py --record 2.13.json aot
    python tools/graph_diff.py --old 2.12.json --new 2.13.json

Each interpreter runs the tests, and every text that they would compare with an expected one
(assertExpectedInline, assertExpected) is recorded instead; no source file is changed. How a test ends is
compared as well. The interpreters need torch and the packages that the tests import. Either side may also be
a file that --record wrote, which then says which tests to compare; otherwise tests are named as for
run_tests.py.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import harness.expected_output  # noqa: F401  (imports expecttest, which reads the variable, before it is set)
from harness import accepted_output
from harness.accepted_output import Accepted, AcceptedOutputs
from harness.errors import HarnessError, UsageError
from harness.runner.selection import discovery, named_tests
from harness.runner.selection.suites_root import suites_root
from harness.settings import EnvVar

FORMAT = 1
RECORDED = ".json"
SEPARATOR = "----"
ADDRESS = re.compile(r"0x[0-9a-f]{4,}")

EXIT_CODES = """exit codes:
  0  all tests have the same graphs on both sides; with --record: the file is written
  1  some graphs differ, or are there on one side only
  2  a wrong argument, or a file that cannot be read or written
  3  an interpreter did not come to the end of the tests
  5  no test of these compares anything with an expected text"""


class RecordingFailed(HarnessError):
    """An interpreter failed to record; its output, which was printed before, says why."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded test: the texts that it compared, in order, and how it ended if it did not pass."""

    texts: tuple[str, ...]
    ended: str = ""

    def lines(self) -> list[str]:
        """The lines to compare: the texts below each other, then how the test ended."""
        parts = [*self.texts, *([f"ended by {self.ended}"] if self.ended else [])]
        return f"\n{SEPARATOR}\n".join(parts).splitlines()


@dataclass(frozen=True, slots=True)
class Recording:
    """The result of recording with one interpreter: its torch release, and the recorded tests by id."""

    torch: str
    tests: Mapping[str, Recorded]

    def to_json(self) -> str:
        """Encodes the recording as the text of a file."""
        tests = {test: asdict(recorded) for test, recorded in self.tests.items()}
        return json.dumps({"format": FORMAT, "torch": self.torch, "tests": tests}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Recording:
        """Restores a recording from the text of ``to_json``; raises ValueError for any other text."""
        try:
            value = json.loads(text)
            if value["format"] != FORMAT:
                raise ValueError(f"its format is {value['format']!r}, not {FORMAT}")
            tests = {
                test: Recorded(tuple(recorded["texts"]), recorded["ended"])
                for test, recorded in value["tests"].items()
            }
            return cls(value["torch"], tests)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a part of it is missing ({error!r})") from error


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    try:
        if options.record is not None:
            return _record_to(options)
        return _compare(options)
    except UsageError as error:
        print(f"graph_diff: {error}", file=sys.stderr)
        return 2
    except RecordingFailed as error:
        print(f"graph_diff: {error}", file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="graph_diff.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tests", metavar="TEST", nargs="*", help="suites, modules, paths, classes or tests to run")
    add("--old", metavar="PYTHON|FILE", help=f"an interpreter, or a file that --record wrote (*{RECORDED})")
    add("--new", metavar="PYTHON|FILE", help="the same; default: this interpreter")
    add("--record", metavar="FILE", type=Path, help="run TESTs with this interpreter and write FILE")
    return parser


# -- recording


def _record_to(options: argparse.Namespace) -> int:
    if options.old or options.new:
        raise UsageError("--record is for one interpreter, the one that runs it: leave --old and --new out")
    recording = record(options.tests)
    try:
        options.record.write_text(recording.to_json(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{options.record} cannot be written: {error.strerror}") from error
    return 0


def record(names: Sequence[str]) -> Recording:
    """Runs the named tests in this process, without the slow ones, and records what they compare.

    Raises UsageError for a name that matches no test.
    """
    if not names:
        raise UsageError("name the tests whose graphs to record")
    root = suites_root()
    targets = named_tests.resolve(names, dict.fromkeys(discovery.modules_below(root), root))
    sys.path[:0] = [entry for target in targets for entry in target.path if entry not in sys.path]
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(
        loader.loadTestsFromName(f"{module}.{target.test}" if target.test else module)
        for target in targets
        for module in target.modules
    )
    recorder = _Recorder()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {EnvVar.ACCEPT: "1"}))
        stack.enter_context(mock.patch.object(accepted_output, "apply", _note_ranks))
        suite.run(recorder)
    return Recording(metadata.version("torch"), recorder.tests)


def _note_ranks(per_rank: Sequence[Sequence[Accepted]]) -> tuple[Accepted, ...]:
    """Replaces ``accepted_output.apply``: what ranks compared is recorded, not written into the source."""
    notes = accepted_output.current_outputs()
    assert notes is not None, "ranks run while a test does"
    for update in (update for updates in per_rank for update in updates):
        notes.add(update)
    return ()


class _Recorder(unittest.TestResult):
    """A test result that records what each test compared and how it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.tests: dict[str, Recorded] = {}
        self._notes = AcceptedOutputs()
        self._around = ExitStack()
        self._ended = ""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._notes = self._around.enter_context(accepted_output.collecting())

    def stopTest(self, test: unittest.TestCase) -> None:
        self._around.close()
        texts = tuple(update.new for update in self._notes.updates)
        self.tests[test.id()] = Recorded(texts, self._ended)
        # Reset here and not in startTest: Python 3.12.1 does not call startTest for tests that it skips.
        self._notes, self._ended = AcceptedOutputs(), ""
        super().stopTest(test)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._end(test, err[1])

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._end(test, err[1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._end(test, err[1])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._end(test, f"a skip: {reason}")

    def _end(self, test: object, how: BaseException | str) -> None:
        self._ended = how if isinstance(how, str) else _one_line(how)
        if not isinstance(test, unittest.TestCase):  # a class or a module that was not set up
            self.tests[str(test)] = Recorded((), self._ended)


def _one_line(error: BaseException) -> str:
    """An error as one line of text that is the same in each run."""
    first, *_ = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {ADDRESS.sub('0x...', first)}"


# -- comparing


def _compare(options: argparse.Namespace) -> int:
    if options.old is None:
        raise UsageError("--old names the interpreter or the recorded file to compare with")
    old, new = _sides(options.old, options.new or sys.executable, options.tests)
    if not any(recorded.texts for side in (old, new) for recorded in side.tests.values()):
        print("graph_diff: no test of these compares anything with an expected text", file=sys.stderr)
        return 5
    ids = sorted(old.tests.keys() | new.tests.keys())
    differing = [lines for lines in (list(_diff(test, old, new)) for test in ids) if lines]
    for lines in differing:
        print("\n".join(lines), end="\n\n")
    print(f"torch {old.torch} -> {new.torch}: {len(differing)} of {len(ids)} tests differ")
    return 1 if differing else 0


def _sides(old: str, new: str, names: Sequence[str]) -> list[Recording]:
    """The recordings of both sides. If one is a file, an interpreter on the other side runs its tests."""
    files = {side: _read(side) for side in (old, new) if side.endswith(RECORDED)}
    if files and names:
        raise UsageError("a recorded file says which tests to compare: leave their names out")
    names = names or [test for recording in files.values() for test in recording.tests]
    if not names:
        raise UsageError("name the tests whose graphs to compare")
    if {old, new} - files.keys():
        root = suites_root()
        named_tests.resolve(names, dict.fromkeys(discovery.modules_below(root), root))
    return [files.get(side) or _run(side, names) for side in (old, new)]


def _read(file: str) -> Recording:
    try:
        return Recording.from_json(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} is no file that --record wrote: {error}") from error


def _run(python: str, names: Sequence[str]) -> Recording:
    """Records these tests with the interpreter ``python`` in a process of its own."""
    program = shutil.which(python)
    if program is None:
        raise UsageError(f"{python} is no interpreter that can be run, and no recorded file (*{RECORDED})")
    with tempfile.TemporaryDirectory(prefix="graph-diff-") as directory:
        file = Path(directory, f"recorded{RECORDED}")
        command = [program, str(Path(__file__).resolve()), "--record", str(file), "--", *names]
        ran = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if ran.returncode or not file.exists():
            print(ran.stdout, end="", file=sys.stderr)
            raise RecordingFailed(
                f"{python} did not come to the end of the tests (exit code {ran.returncode})"
            )
        return _read(str(file))


def _diff(test: str, old: Recording, new: Recording) -> Iterator[str]:
    """The lines of the unified diff of one test's texts; none if they are the same."""
    one, other = (side.tests.get(test, Recorded(())) for side in (old, new))
    return difflib.unified_diff(
        one.lines(),
        other.lines(),
        f"{test} (torch {old.torch})",
        f"{test} (torch {new.torch})",
        lineterm="",
    )


if __name__ == "__main__":
    sys.exit(main())
