"""Tests that timings are updated from the results of a run: whole, in shards, or cut off within a line."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path

from harness.outcomes import Status
from harness.record import TestRecord, dumps
from harness.runner.scheduling import timings
from harness.runner.scheduling.timings import Timings
from tools import update_timings

REPOSITORY = Path(__file__).resolve().parents[3]


def line(
    test_id: str, seconds: float, status: Status = Status.PASSED, fixtures: Mapping[str, float] | None = None
) -> str:
    extra = {} if fixtures is None else {"fixtures_s": fixtures}
    return dumps(TestRecord(id=test_id, status=status, duration_s=seconds, extra=extra))


class UpdateTimingsTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.file = self.root / "timings.json"

    def results(self, name: str, *lines: str, end: str = "\n") -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + end, encoding="utf-8", errors="backslashreplace")
        return str(path)

    def run_tool(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = update_timings.main(["--timings", str(self.file), *arguments])
        return code, out.getvalue(), err.getvalue()

    def update(self, *arguments: str) -> Timings:
        code, _, err = self.run_tool(*arguments)
        self.assertEqual((code, err), (0, ""))
        loaded, warning = timings.load(self.file)
        self.assertIsNone(warning)
        return loaded

    def test_shards_of_one_run_are_put_together(self) -> None:
        one = self.results("1/results.jsonl", line("m.C.a", 1, fixtures={"import m": 2}), line("m.C.b", 3))
        two = self.results("2/results.jsonl", line("m.C.c", 5, fixtures={"import m": 4, "m.C": 0.5}))
        want = Timings({"m.C.a": 1, "m.C.b": 3, "m.C.c": 5}, {"import m": 3, "m.C": 0.5})
        self.assertEqual(self.update(one, two), want)

    def test_a_directory_is_searched(self) -> None:
        self.results("run/1/results.jsonl", line("m.C.a", 1))
        self.results("run/2/results.jsonl", line("m.C.b", 1))
        self.results("run/2/other.jsonl", "no results")
        self.assertEqual(self.update(str(self.root / "run")).tests, {"m.C.a": 1, "m.C.b": 1})

    def test_repeats_count_by_their_median(self) -> None:
        results = self.results("results.jsonl", *(line("m.C.a", seconds) for seconds in (1, 100, 2)))
        self.assertEqual(self.update(results).tests, {"m.C.a": 2})

    def test_blends_with_what_is_there(self) -> None:
        timings.save(Timings({"m.C.a": 3, "gone.C.a": 7}, {"gone": 1}), self.file)
        results = self.results("results.jsonl", line("m.C.a", 1))
        self.assertEqual(self.update(results), Timings({"m.C.a": 2, "gone.C.a": 7}, {"gone": 1}))
        self.assertEqual(self.update("--prune", results), Timings({"m.C.a": 1.5}))

    def test_pruning_keeps_what_failed_this_time(self) -> None:
        timings.save(Timings({"m.C.a": 3, "m.C.b": 4}), self.file)
        results = self.results("results.jsonl", line("m.C.a", 99, Status.FAILED), line("m.C.b", 4))
        self.assertEqual(self.update("--prune", results), Timings({"m.C.a": 3, "m.C.b": 4}))

    def test_only_tests_that_are_well_count(self) -> None:
        lines = [line(f"m.C.{status.name}", 1, status, {f"m.{status.name}": 1}) for status in Status]
        well = {"PASSED", "SKIPPED", "XFAILED"}
        value = self.update(self.results("results.jsonl", *lines))
        self.assertEqual(set(value.tests), {f"m.C.{name}" for name in well})
        self.assertEqual(set(value.fixtures), {f"m.{name}" for name in well})

    def test_lines_of_other_kinds_are_passed_over(self) -> None:
        results = self.results("journal.jsonl", '{"kind": "run", "schema": 99}', "", line("m.C.a", 1))
        self.assertEqual(self.update(results).tests, {"m.C.a": 1})

    def test_a_cut_last_line_is_left_out(self) -> None:
        results = self.results("journal.jsonl", line("m.C.a", 1), line("m.C.b", 1)[:-9], end="")
        self.assertEqual(self.update(results).tests, {"m.C.a": 1})

    def test_a_name_that_utf_8_lacks(self) -> None:
        test_id = "m.C.test_\udc80"
        results = self.results("results.jsonl", line(test_id, 1))
        self.assertEqual(self.update(results).tests, {test_id: 1})

    def test_dry_run_writes_nothing(self) -> None:
        code, out, _ = self.run_tool("--dry-run", self.results("results.jsonl", line("m.C.a", 1)))
        self.assertEqual(code, 0)
        self.assertIn("1 new", out)
        self.assertFalse(self.file.exists())

    def test_a_broken_timings_file_is_written_anew(self) -> None:
        self.file.write_text("{")
        code, _, err = self.run_tool(self.results("results.jsonl", line("m.C.a", 1)))
        self.assertEqual(code, 0)
        self.assertIn(str(self.file), err)
        self.assertEqual(timings.load(self.file), (Timings({"m.C.a": 1}), None))

    def test_nothing_that_counts(self) -> None:
        timings.save(Timings({"m.C.a": 3}), self.file)
        before = self.file.read_text()
        code, _, err = self.run_tool(self.results("results.jsonl", line("m.C.a", 1, Status.FAILED)))
        self.assertEqual(code, 1)
        self.assertIn("no test", err)
        self.assertEqual(self.file.read_text(), before)

    def test_what_cannot_be_used(self) -> None:
        good = line("m.C.a", 1)
        newer = json.dumps({**json.loads(good), "schema": 99})
        fast = json.dumps({**json.loads(good), "duration_s": "fast"})
        spent = json.dumps({**json.loads(good), "extra": {"fixtures_s": {"m": None}}})
        never = json.dumps({**json.loads(good), "duration_s": float("nan")})
        (self.root / "empty").mkdir()
        table = (
            (str(self.root / "nowhere.jsonl"), "nowhere.jsonl"),
            (str(self.root / "empty"), "no results.jsonl"),
            (self.results("a.jsonl", "not json", good), "a.jsonl:1"),
            (self.results("b.jsonl", good, "[]", good), "b.jsonl:2"),
            (self.results("c.jsonl", newer), "c.jsonl:1"),
            (self.results("d.jsonl", good, fast), "d.jsonl:2"),
            (self.results("e.jsonl", spent), "e.jsonl:1"),
            (self.results("f.jsonl", never), "f.jsonl:1"),
            (self.results("g.jsonl", "[" * 100_000), "g.jsonl:1"),
            (self.results("h.jsonl", good.replace('"extra":{}', '"extra":[]')), "h.jsonl:1"),
        )
        for path, named in table:
            with self.subTest(named):
                code, _, err = self.run_tool(path)
                self.assertEqual(code, 2)
                self.assertIn(named, err)
                self.assertEqual(len(err.splitlines()), 1, err)
                self.assertFalse(self.file.exists())

    def test_a_timings_file_that_cannot_be_written(self) -> None:
        self.file = self.root / "nowhere" / "timings.json"
        code, _, err = self.run_tool(self.results("results.jsonl", line("m.C.a", 1)))
        self.assertEqual(code, 2)
        self.assertIn("cannot be written", err)

    def test_help_says_the_exit_codes_wherever_it_is_started(self) -> None:
        script = str(REPOSITORY / "tools" / "update_timings.py")
        for command, cwd in (([script], self.root), (["-m", "tools.update_timings"], REPOSITORY)):
            with self.subTest(command):
                done = subprocess.run(
                    [sys.executable, *command, "--help"], cwd=cwd, capture_output=True, text=True, check=True
                )
                self.assertIn("exit codes:", done.stdout)


if __name__ == "__main__":
    unittest.main()
