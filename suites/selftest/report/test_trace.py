"""Self-tests of harness.report.trace: the structure of the events, and that slices nest."""

from __future__ import annotations

import json
import random
import unittest
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.communication_call import Call
from harness.outcomes import Status
from harness.record import RankRecord, TestRecord
from harness.report.base import RunInfo
from harness.report.summary import summarise
from harness.report.trace import Slice, nested, trace_text
from suites.selftest.communication.samples import call, receive, send
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
            self.assertIn(event["ph"], ("X", "M", "s", "t", "f"))
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

    def test_rank_names_its_host(self) -> None:
        (first, *_) = (record for record in runs.records() if record.ranks)
        moved = replace(first, ranks=tuple(replace(rank, host=f"n{rank.rank}") for rank in first.ranks))
        slices = [e for e in trace([moved])["traceEvents"] if e["ph"] == "X" and e["cat"] == "rank"]
        self.assertEqual([e["args"]["host"] for e in slices], [f"n{rank.rank}" for rank in first.ranks])

    def test_slices_of_a_thread_nest(self) -> None:
        self.assertEqual(overlapping(self.value), [])

    def test_collectives_lie_in_their_rank(self) -> None:
        calls = [e for e in self.slices if e["cat"] == "collective"]
        stuck = [e for e in calls if e["name"] == "broadcast #5"]
        self.assertEqual(len(stuck), 1)
        self.assertFalse(stuck[0]["args"]["came back"])
        self.assertEqual(stuck[0]["tid"], 2)
        self.assertAlmostEqual(stuck[0]["ts"] + stuck[0]["dur"], (1.2 - 0.1 + 0.02 + 0.4) * 1e6, delta=500)

    def test_ranks_without_a_report(self) -> None:
        """One that was ended lasts until the test's end, and one that crashed until its last known time."""
        calls = (call(state="ended"), call(number=2))
        for status, until_s in ((Status.DEADLOCKED, 30.0), (Status.ENDED, 30.0), (Status.CRASHED, 12.0)):
            with self.subTest(status):
                rank = RankRecord(0, status, started_s=10.0, calls=calls)
                record = TestRecord("t.T.test", status, 20.0, runs.BEGAN_AT, 10.0, ranks=(rank,))
                events = trace([record])["traceEvents"]
                found = {e["cat"]: e["ts"] + e["dur"] for e in events if e["ph"] == "X"}
                self.assertAlmostEqual(found["rank"], (until_s - 10) * 1e6, delta=1)
                self.assertAlmostEqual(found["collective"], (until_s - 10) * 1e6, delta=1)

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


def overlapping(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The slices that begin inside another of their thread and end after it, to the nanosecond."""
    found = []
    ends: dict[tuple[int, int], list[int]] = {}
    for event in value["traceEvents"]:
        if event["ph"] == "X":
            open_ones = ends.setdefault((event["pid"], event["tid"]), [])
            begins = round(event["ts"] * 1000)
            while open_ones and open_ones[-1] <= begins:
                open_ones.pop()
            end = begins + round(event["dur"] * 1000)
            if open_ones and end > open_ones[-1]:
                found.append(event)
            open_ones.append(end)
    return found


def flows(value: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The events of each flow, in the order of the file, after a check of the format's rules.

    A flow is what has one category, name and id. It has one start, which comes first, and one finish that
    comes last, at no earlier time; each event lies inside a slice of its thread that is a call, and no
    other slice begins within that before it and still lasts.
    """
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    slices: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in value["traceEvents"]:
        if event["ph"] == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append(event)
        elif event["ph"] in "stf":
            found.setdefault((event["cat"], event["name"], event["id"]), []).append(event)
    for events in found.values():
        phases = "".join(event["ph"] for event in events)
        if phases != "s" + "t" * (len(events) - 2) + "f":
            raise AssertionError(f"phases {phases}: {events}")
        if [event["ts"] for event in events] != sorted(event["ts"] for event in events):
            raise AssertionError(f"times go back: {events}")
        if [event.get("bp") for event in events] != [None] * (len(events) - 1) + ["e"]:
            raise AssertionError(f"only a finish is bound to the slice around it by bp: {events}")
        for event in events:
            around = [
                each
                for each in slices[event["pid"], event["tid"]]
                if each["ts"] <= event["ts"] < each["ts"] + each["dur"]
            ]
            if not around or around[-1]["cat"] != "collective":
                raise AssertionError(f"{event} is in no call: {around}")
            event["slice"] = around[-1]
    numbers = [number for _, _, number in found]
    if len(set(numbers)) != len(numbers):
        raise AssertionError(f"an id of two flows: {numbers}")
    return list(found.values())


class FlowsTest(unittest.TestCase):
    """The flows between ranks that meet."""

    def record(self, *calls: Sequence[Call]) -> TestRecord:
        """A test whose ranks made these calls, from ten seconds on."""
        ranks = tuple(
            RankRecord(rank, Status.PASSED, 90.0, 10.0, calls=tuple(mine)) for rank, mine in enumerate(calls)
        )
        return TestRecord("t.T.test", Status.PASSED, 90.0, runs.BEGAN_AT, 10.0, "w1", ranks=ranks)

    def told(self, *calls: Sequence[Call]) -> list[list[tuple[int, str]]]:
        """Of each flow the ranks and the slices that it touches."""
        return [
            [(event["tid"] - 1, event["slice"]["name"]) for event in events]
            for events in flows(trace([self.record(*calls)]))
        ]

    def test_whole_run(self) -> None:
        """The flows of the synthetic run keep the rules, and lead through all ranks of a collective."""
        found = flows(trace(runs.records()))
        self.assertEqual(len({event["id"] for events in found for event in events}), len(found))
        self.assertIn([1, 2, 3, 4], [sorted(event["tid"] for event in events) for events in found])

    def test_collective(self) -> None:
        """From rank to rank in the order in which they came."""
        late, first, last = (call(state="ended", members=(0, 1, 2), at=at) for at in (0.2, 0.1, 0.3))
        name = "all_reduce #1"
        self.assertEqual(self.told([late], [first], [last]), [[(1, name), (0, name), (2, name)]])
        self.assertEqual(self.told([late], [], []), [])

    def test_message(self) -> None:
        """From the send to the receive, whichever began first."""
        for at in (0.0, 0.2):
            with self.subTest(at):
                sent, received = send(1, state="ended", at=at), receive(0, state="ended", at=0.1)
                self.assertEqual(
                    self.told([sent], [received]), [[(0, "send to rank 1"), (1, "recv from rank 0")]]
                )

    def test_nested_calls(self) -> None:
        """A receive that others lie in is the innermost slice where its flow ends, or has none."""
        waits = replace(receive(0, state="ended"), ended_s=20.0)  # from second 11 on
        inner = call("barrier", group="1", members=(1,), state="ended", at=0.1)
        sent = send(1, state="ended", at=0.3)
        self.assertEqual(
            self.told([sent], [waits, inner]), [[(0, "send to rank 1"), (1, "recv from rank 0")]]
        )
        covered = replace(inner, ended_s=20.0)
        self.assertEqual(self.told([sent], [waits, covered]), [])

    def test_same_call_on_two_ranks(self) -> None:
        """One process that plays all ranks has the same objects for each."""
        same = [call(state="ended", members=(0, 1))]
        self.assertEqual(self.told(same, same), [[(0, "all_reduce #1"), (1, "all_reduce #1")]])

    def test_nested_to_the_nanosecond(self) -> None:
        """Slices that nest do so in the file, where times are rounded; Perfetto drops those that do not."""
        draw = random.Random(7)
        times = sorted(10 + draw.random() * 80 for _ in range(300))
        outer = replace(call(state="ended", members=(0, 1)), started_s=times[0], ended_s=times[-1])
        inner = [replace(outer, started_s=a, ended_s=times[-1]) for a in times[1:-1]]
        record = replace(self.record([outer, *inner]), started_at=runs.BEGAN_AT + 0.123456789)
        self.assertEqual(overlapping(trace([runs.records()[0], record])), [])

    def test_arguments(self) -> None:
        """A slice says what the call was given; what it has not is left out."""
        made = call("broadcast", root=1, members=(0, 1), state="ended", tensors="(2,) float32")
        (piece,) = (e for e in trace([self.record([made])])["traceEvents"] if e.get("cat") == "collective")
        self.assertEqual(
            piece["args"],
            {
                "group": "the default group",
                "number": 1,
                "root": 1,
                "tensors": "(2,) float32",
                "place": "t.py:20 in test_x",
                "came back": True,
            },
        )


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
