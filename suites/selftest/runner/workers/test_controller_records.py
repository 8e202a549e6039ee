"""Tests the records of tests that did not report themselves."""

from __future__ import annotations

import faulthandler
import socket
import tempfile
import threading
import time
import unittest
from collections import deque
from dataclasses import replace
from pathlib import Path

from harness.outcomes import Status
from harness.record import RankRecord, TestRecord
from harness.runner.messages import Fork
from harness.runner.scheduling.unit import BROKEN, SKIPPED, Demand, of_id, of_module
from harness.runner.worker_process.output_capture import OutputSplitter
from harness.runner.workers import controller_records
from harness.runner.workers.worker_state import Cause, Worker
from harness.settings import MORE_TIME

UNIT = of_id("m.Case.test_x", "m", file="/m.py", line=3)


def ended_worker(cause: Cause, *, code: int = 0, stacks: str = "", began_s: float = 0.0) -> Worker:
    """Returns a worker that has ended."""
    with socket.socket() as channel:
        return Worker(
            name="2#7",
            label="2",
            order=Fork("2#7", [], ""),
            limits={},
            channel=channel,
            output=-1,
            stacks=-1,
            splitter=OutputSplitter(""),
            waiting=deque(),
            claims=-1,
            cause=cause,
            code=code,
            peak_memory=4096,
            dump=bytearray(stacks.encode()),
            began_s=began_s,
        )


class CutShortTest(unittest.TestCase):
    """``cut_short``: the test that was running when its worker ended."""

    def test_killed(self) -> None:
        """What is known of why its process was killed stands in the reason."""
        worker = ended_worker(Cause.CRASH, code=-9)
        worker.killed = "meanwhile ..."
        reason = controller_records.cut_short(UNIT, worker, "", None).reason
        self.assertIn("ended with signal SIGKILL without an outcome (meanwhile ...)", reason)

    def test_verdicts(self) -> None:
        """The cause of the worker's end decides the status, and exit code 0 is a crash too."""
        table = (
            (Cause.TIMEOUT, -9, 5.0, Status.TIMED_OUT, "no end after 5 s"),
            (Cause.TIMEOUT, -9, None, Status.TIMED_OUT, "timed out"),
            (Cause.STOPPED, -15, 5.0, Status.ENDED, "the run was stopped"),
            (Cause.ZYGOTE, 0, 5.0, Status.ERROR, "more than once"),
            (Cause.CRASH, -11, 5.0, Status.CRASHED, "SIGSEGV"),
            (Cause.CRASH, 0, 5.0, Status.CRASHED, "without an outcome"),
        )
        for cause, code, limit_s, status, reason in table:
            with self.subTest(cause=cause, code=code, limit_s=limit_s):
                record = controller_records.cut_short(UNIT, ended_worker(cause, code=code), "", limit_s)
                self.assertIs(record.status, status)
                self.assertIn(reason, record.reason)
                hint = f"\nhint: {MORE_TIME}" if status is Status.TIMED_OUT else ""
                self.assertEqual(record.details, record.reason + hint)

    def test_fields(self) -> None:
        """The record has the worker's label, exit code and memory, and the test's place, ranks and output."""
        unit = replace(UNIT, demand=Demand(ranks=4))
        record = controller_records.cut_short(unit, ended_worker(Cause.CRASH, code=3), "printed", None)
        self.assertEqual((record.id, record.worker, record.output), ("m.Case.test_x", "2", "printed"))
        self.assertEqual((record.file, record.line, record.world_size), ("/m.py", 3, 4))
        self.assertEqual(record.extra, {"exit_code": 3, "peak_memory": 4096})
        alone = controller_records.cut_short(UNIT, ended_worker(Cause.CRASH), "", None)
        self.assertIsNone(alone.world_size)

    def test_duration(self) -> None:
        """The test lasted since it began, and never less than no time."""
        began_s = time.monotonic() - 100
        record = controller_records.cut_short(UNIT, ended_worker(Cause.CRASH, began_s=began_s), "", None)
        self.assertGreaterEqual(record.duration_s, 100)
        self.assertLessEqual(record.started_at, time.time() - 100)
        self.assertEqual(record.started_s, began_s)
        future = ended_worker(Cause.CRASH, began_s=time.monotonic() + 1000)
        self.assertEqual(controller_records.cut_short(UNIT, future, "", None).duration_s, 0)

    def test_stacks(self) -> None:
        """The details have the stack of every thread without unittest's frames."""
        frames = '  File "/m.py", line 3 in test_x\n  File "/lib/unittest/case.py", line 5 in run\n'
        other = 'Thread 2:\n  File "/lib/threading.py", line 7 in run'
        worker = ended_worker(Cause.TIMEOUT, stacks=f"Thread 1:\n{frames}\n{other}")
        details = controller_records.cut_short(UNIT, worker, "", 5.0).details
        self.assertTrue(details.endswith(f'Thread 1:\n  File "/m.py", line 3 in test_x\n\n{other}'), details)


class TooLateTest(unittest.TestCase):
    """``cut_short`` of a test that reported after it was given up."""

    def record(self, cause: Cause, report: TestRecord) -> TestRecord:
        """Returns the record of a test with that report."""
        worker = ended_worker(cause)
        worker.too_late = report
        return controller_records.cut_short(UNIT, worker, "", 5.0)

    def test_status(self) -> None:
        """Whatever the test reported, its status and reason stay; the details have the report."""
        for cause, status in ((Cause.TIMEOUT, Status.TIMED_OUT), (Cause.STOPPED, Status.ENDED)):
            reason = controller_records.cut_short(UNIT, ended_worker(cause), "", 5.0).reason[:10]
            for reported in (Status.PASSED, Status.SKIPPED, Status.FAILED, Status.XPASSED):
                with self.subTest(cause=cause, reported=reported):
                    record = self.record(cause, TestRecord(UNIT.id, reported))
                    self.assertIs(record.status, status)
                    self.assertEqual(record.reason[:10], reason)
                    self.assertTrue(record.details.endswith(f"too late: {reported.value}"), record.details)

    def test_ranks(self) -> None:
        """The ranks of the report are kept, and what it says of them is the text of an interrupted test."""
        ranks = (RankRecord(0, Status.ENDED), RankRecord(1, Status.ENDED))
        report = TestRecord(UNIT.id, Status.ERROR, mode="fresh", ranks=ranks, details="what each rank did")
        stopped = self.record(Cause.STOPPED, report)
        self.assertEqual((stopped.ranks, stopped.mode), (ranks, "fresh"))
        self.assertEqual(stopped.details, "what each rank did")
        overdue = self.record(Cause.TIMEOUT, report)
        self.assertEqual(overdue.ranks, ranks)
        self.assertTrue(overdue.details.startswith("timed out"), overdue.details)
        self.assertTrue(overdue.details.endswith("too late: error\nwhat each rank did"), overdue.details)


class TrimmedTest(unittest.TestCase):
    """``trimmed``: faulthandler's text of this process."""

    def test_every_thread(self) -> None:
        """The main thread's stack ends at the test, and other threads' stacks are whole."""
        waiting, over = threading.Event(), threading.Event()

        def wait() -> None:
            waiting.set()
            over.wait()

        thread = threading.Thread(target=wait)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        waiting.wait()
        with tempfile.TemporaryFile("w+") as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            text = file.read()
        self.assertIn("unittest/case.py", text)
        lines = controller_records.trimmed(text).splitlines()
        self.assertIn("in test_every_thread", lines[-1])
        self.assertNotIn("unittest", "".join(lines).replace("selftest", ""))
        self.assertTrue(any(line.endswith("in wait") for line in lines), lines)
        self.assertTrue(any("in _bootstrap" in line for line in lines), lines)


class WithoutWorkerTest(unittest.TestCase):
    """Records of tests that never began."""

    def test_never_began(self) -> None:
        """A worker that ends before its first test makes that an error with the worker's output."""
        worker = ended_worker(Cause.CRASH, code=3, stacks="a stack")
        record = controller_records.never_began(UNIT, worker, "printed")
        self.assertIs(record.status, Status.ERROR)
        self.assertIn("exit code 3", record.reason)
        self.assertEqual(record.details, f"{record.reason}\nprinted\na stack")

    def test_modules(self) -> None:
        """A broken module is an error with its traceback, and one that skips itself is skipped."""
        error = "Traceback\n  a frame\nNameError: y\n"
        broken = controller_records.broken_module(of_module("m", BROKEN), error)
        self.assertEqual((broken.id, broken.status), ("m", Status.ERROR))
        self.assertEqual(broken.reason, "does not import: NameError: y")
        self.assertIn(error, broken.details)
        skipped = controller_records.skipped_module(of_module("m", SKIPPED), "no GPU")
        self.assertEqual((skipped.status, skipped.reason, skipped.details), (Status.SKIPPED, "no GPU", ""))

    def test_what_stands_beside_a_module(self) -> None:
        """Where a module beside the file was not found, the error says how it is; else it says no more."""
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "helper.py").touch()
            (directory / "tools").mkdir()
            (directory / "tools" / "__init__.py").touch()
            for last, file in (
                ("ModuleNotFoundError: No module named 'helper'", "helper.py"),
                ("ModuleNotFoundError: No module named 'tools'", "tools/__init__.py"),
                ("ModuleNotFoundError: No module named 'other'", ""),
                ("ModuleNotFoundError: No module named 'helper.x'; 'helper' is not a package", ""),
                ("NameError: helper", ""),
            ):
                with self.subTest(last):
                    source = directory / "test_x.py"
                    record = controller_records.broken_module(of_module("p.test_x", BROKEN), last, source)
                    hint = f"{file} is beside it, in a package: run with PYTHONPATH={name}" if file else ""
                    self.assertEqual(record.reason, f"does not import: {last}{'; ' if hint else ''}{hint}")
                    self.assertEqual(record.details.endswith(f"\nhint: {hint}"), bool(hint))

    def test_refused_module(self) -> None:
        """A module that pytest cannot run is an error whose reason is one line, with the command to use."""
        unit = of_module("m", BROKEN)
        record = controller_records.refused_module(unit, "pytest cannot collect m: why\nand more", "a/m.py")
        self.assertEqual((record.status, record.reason), (Status.ERROR, "pytest cannot collect m: why"))
        self.assertTrue(record.details.endswith("and more\nby pytest alone: python -m pytest a/m.py"))

    def test_duplicate(self) -> None:
        """An id that several tests share is an error that names their modules."""
        record = controller_records.duplicate(UNIT, ("m", "n"))
        self.assertIs(record.status, Status.ERROR)
        self.assertIn("several tests of m and n", record.reason)
        self.assertEqual(record.file, "/m.py")


if __name__ == "__main__":
    unittest.main()
