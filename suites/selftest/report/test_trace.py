"""Self-tests of harness.report.trace: the structure of the events, and that slices nest."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.report.summary import summarise
from harness.report.trace import Slice, nested, trace_text
from suites.selftest.report import runs


def trace(records: list[TestRecord]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(trace_text(runs.info(), summarise(records)))
    return value


class StructureTest(unittest.TestCase):
    """``trace_text`` of the whole synthetic run."""

    def setUp(self) -> None:
        self.value = trace(runs.records())
        self.slices = [e for e in self.value["traceEvents"] if e["ph"] == "X"]

    def names(self, kind: str) -> dict[tuple[int, int | None], str]:
        events = (e for e in self.value["traceEvents"] if e["name"] == kind)
        return {(e["pid"], e.get("tid")): e["args"]["name"] for e in events}

    def test_every_event_has_what_viewers_need(self) -> None:
        for event in self.value["traceEvents"]:
            self.assertIn(event["ph"], ("X", "M"))
            self.assertIsInstance(event["pid"], int)
        for event in self.slices:
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            self.assertIsInstance(event["tid"], int)

    def test_workers_are_processes_and_ranks_threads(self) -> None:
        self.assertEqual(set(self.names("process_name").values()), {"worker w1", "worker w2"})
        threads = self.names("thread_name")
        self.assertEqual([threads[1, n] for n in range(5)], ["tests", "rank 0", "rank 1", "rank 2", "rank 3"])
        self.assertEqual({(e["pid"], e["tid"]) for e in self.slices}, set(threads))

    def test_slices_of_a_thread_nest(self) -> None:
        by_thread: dict[tuple[int, int], list[dict[str, Any]]] = {}
        for event in self.slices:
            by_thread.setdefault((event["pid"], event["tid"]), []).append(event)
        for events in by_thread.values():
            ends: list[float] = []
            for event in events:
                while ends and ends[-1] <= event["ts"]:
                    ends.pop()
                self.assertTrue(not ends or event["ts"] + event["dur"] <= ends[-1] + 0.01, event)
                ends.append(event["ts"] + event["dur"])

    def test_collectives_lie_in_their_rank(self) -> None:
        calls = [e for e in self.slices if e["cat"] == "collective"]
        stuck = [e for e in calls if e["name"] == "broadcast #5"]
        self.assertEqual(len(stuck), 1)
        self.assertFalse(stuck[0]["args"]["came back"])
        self.assertEqual(stuck[0]["tid"], 2)
        self.assertAlmostEqual(stuck[0]["ts"] + stuck[0]["dur"], (1.2 - 0.1 + 0.02 + 0.4) * 1e6, delta=500)

    def test_worker_ten_comes_after_worker_two(self) -> None:
        records = [replace(runs.records()[0], worker=w) for w in ("w10", "w2", "w1", "")]
        names = [e["args"]["name"] for e in trace(records)["traceEvents"] if e["name"] == "process_name"]
        self.assertEqual(names, ["worker", "worker w1", "worker w2", "worker w10"])

    def test_clock_of_another_boot(self) -> None:
        """Records of a resumed run are ordered by the epoch, since their monotonic clocks differ."""
        first = runs.records()[0]
        ranks = tuple(replace(r, started_s=(r.started_s or 0) - 900, calls=()) for r in first.ranks)
        later = replace(first, started_s=first.started_s - 900, started_at=first.started_at + 10, ranks=ranks)
        slices = [e for e in trace([first, later])["traceEvents"] if e["ph"] == "X" and e["cat"] == "rank"]
        self.assertEqual(sorted({round(e["ts"] / 1e6, 2) for e in slices}), [0.02, 10.02])

    def test_empty_run(self) -> None:
        self.assertEqual(json.loads(trace_text(RunInfo(), summarise([])))["traceEvents"], [])

    def test_nasty_text(self) -> None:
        """Text with control characters still gives valid JSON."""
        trace([TestRecord(runs.NASTY, Status.FAILED, reason=runs.NASTY, worker=runs.NASTY)])


class NestedTest(unittest.TestCase):
    """``nested``: slices of one thread are cut so that they nest."""

    def test_table(self) -> None:
        """Slices that overlap, touch or contain each other."""
        table: list[tuple[list[tuple[float, float]], list[tuple[float, float]]]] = [
            ([(0, 1), (1, 2)], [(0, 1), (1, 2)]),
            ([(1, 2), (0, 3)], [(0, 3), (1, 2)]),
            ([(0, 2), (1, 3)], [(0, 2), (1, 2)]),
            ([(0, 9), (1, 5), (2, 7), (8, 12)], [(0, 9), (1, 5), (2, 5), (8, 9)]),
            ([(0, 1), (0, 5)], [(0, 5), (0, 1)]),
        ]
        for given, expected in table:
            with self.subTest(given):
                slices = nested(Slice("s", "c", start, end, {}) for start, end in given)
                self.assertEqual([(s.start_s, s.end_s) for s in slices], expected)


if __name__ == "__main__":
    unittest.main()
