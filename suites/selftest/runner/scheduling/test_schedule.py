"""Tests packing by demand: never over capacity, no batch starved, and no slot idle for long."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from harness.runner.scheduling.batching import Batch
from harness.runner.scheduling.schedule import Capacity, Schedule
from harness.runner.scheduling.unit import Demand, of_id
from suites.selftest.properties import given
from suites.selftest.runner import strategies

Span = tuple[float, float]  # when a batch started and ended

batch_lists = st.lists(st.tuples(strategies.demands, st.floats(0, 20)), max_size=30).map(
    lambda items: [batch(key, seconds, demand) for key, (demand, seconds) in enumerate(items)]
)
capacities = st.builds(
    Capacity,
    slots=st.integers(1, 8),
    accelerators=st.integers(0, 2),
    memory_mb=st.sampled_from((None, 0, 4000)),
    ranks=st.sampled_from((None, 4, 16)),
)


def batch(key: int, seconds: float, demand: Demand | None = None, slots: int = 1) -> Batch:
    return Batch(key, (of_id(f"m.C.t{key}", "m"),), demand or Demand(cpu_slots=slots), seconds)


def simulate(
    schedule: Schedule,
    actual: Callable[[Batch], float],
    watch: Callable[[Schedule], None] = lambda schedule: None,
) -> dict[int, Span]:
    """Runs a schedule to its end on a clock of its own; returns when each batch started and ended."""
    now, spans = 0.0, {}
    while schedule.waiting or schedule.running:
        schedule, started = schedule.start(now)
        watch(schedule)
        for item in started:
            spans[item.key] = (now, now + actual(item))
        assert schedule.running, "something waits, nothing runs, and nothing was started"
        first = min(schedule.running, key=lambda entry: spans[entry.batch.key][1])
        now = max(now, spans[first.batch.key][1])
        schedule = schedule.done(first.batch.key)
    return spans


def expected(item: Batch) -> float:
    return item.expected_s


def makespan(spans: dict[int, Span]) -> float:
    return max((end for _, end in spans.values()), default=0.0)


def keys(batches: Sequence[Batch]) -> list[int]:
    return [item.key for item in batches]


class SimulatedTest(unittest.TestCase):
    @given(capacities, batch_lists, st.data())
    def test_everything_runs_once_within_capacity_however_wrong_the_estimates(
        self, capacity: Capacity, batches: list[Batch], data: st.DataObject
    ) -> None:
        actual = {item.key: data.draw(st.floats(0, 20)) for item in batches}

        def watch(schedule: Schedule) -> None:
            for used, there in zip(
                map(sum, zip(*(entry.need for entry in schedule.running), strict=True)),
                capacity.amounts,
                strict=False,
            ):
                self.assertLessEqual(used, there)

        spans = simulate(Schedule(capacity).add(batches), lambda item: actual[item.key], watch)
        self.assertEqual(sorted(spans), keys(batches))

    @given(capacities, batch_lists)
    def test_who_must_be_alone_is(self, capacity: Capacity, batches: list[Batch]) -> None:
        def watch(schedule: Schedule) -> None:
            if any(capacity.alone(entry.batch.demand) for entry in schedule.running):
                self.assertEqual(len(schedule.running), 1)

        simulate(Schedule(capacity).add(batches), expected, watch)

    @given(st.integers(1, 8), st.lists(st.floats(0.01, 20), min_size=1, max_size=40))
    def test_narrow_batches_are_packed_as_graham_says(self, slots: int, durations: list[float]) -> None:
        batches = [batch(key, seconds) for key, seconds in enumerate(durations)]
        spans = simulate(Schedule(Capacity(slots)).add(batches), expected)
        bound = sum(durations) / slots + (1 - 1 / slots) * max(durations)
        self.assertLessEqual(makespan(spans), bound + 1e-6)

    @given(
        st.integers(2, 8),
        st.lists(st.tuples(st.integers(1, 8), st.floats(0.01, 20)), min_size=1, max_size=30),
    )
    def test_mixed_widths_take_at_most_thrice_the_least_possible(
        self, slots: int, shapes: list[tuple[int, float]]
    ) -> None:
        batches = [batch(key, seconds, slots=width) for key, (width, seconds) in enumerate(shapes)]
        spans = simulate(Schedule(Capacity(slots)).add(batches), expected)
        area = sum(min(width, slots) * seconds for width, seconds in shapes)
        self.assertLessEqual(makespan(spans), 3 * max(area / slots, max(s for _, s in shapes)) + 1e-6)

    def test_a_wide_rerun_is_not_starved_by_an_endless_stream(self) -> None:
        for told in (0.0, 1.0, 1000.0):
            with self.subTest(told=told):
                self.assertLessEqual(self.starts_before_the_wide_one(told), 12)

    def starts_before_the_wide_one(self, told: float) -> int:
        """Returns how many 1 s batches, expected to take ``told``, start before a waiting wide one."""
        schedule = Schedule(Capacity(4)).add(batch(key, told) for key in range(4))
        schedule, _ = schedule.start(0.0)
        schedule = schedule.add([batch(99, 1.0, slots=4)])
        ends = {key: 0.7 + key / 10 for key in range(4)}
        for key in range(100, 1000):
            schedule = schedule.add([batch(key, told)])
            now = min(ends.values())
            schedule = schedule.done(min(ends, key=ends.__getitem__))
            del ends[min(ends, key=ends.__getitem__)]
            schedule, started = schedule.start(now)
            if 99 in keys(started):
                return key - 100
            ends.update((item.key, now + 1.0) for item in started)
        raise AssertionError("the wide batch never started")


class OrderTest(unittest.TestCase):
    def started(self, schedule: Schedule, now: float = 0.0) -> list[int]:
        return keys(schedule.start(now)[1])

    def test_longest_first(self) -> None:
        schedule = Schedule(Capacity(2)).add([batch(0, 1), batch(1, 3), batch(2, 2)])
        self.assertEqual(self.started(schedule), [1, 2])

    def test_equal_ones_in_their_own_order(self) -> None:
        schedule = Schedule(Capacity(2)).add([batch(2, 1), batch(0, 1), batch(1, 1)])
        self.assertEqual(self.started(schedule), [0, 1])

    def test_wide_before_narrow(self) -> None:
        schedule = Schedule(Capacity(3)).add([batch(0, 9), batch(1, 1, slots=2), batch(2, 5)])
        self.assertEqual(self.started(schedule), [1, 0])

    def test_exclusive_last_and_alone(self) -> None:
        lone = batch(0, 9, Demand(exclusive=True))
        schedule, started = Schedule(Capacity(2)).add([lone, batch(1, 1), batch(2, 1)]).start(0)
        self.assertEqual(keys(started), [1, 2])
        schedule, started = schedule.done(1).start(1)
        self.assertEqual(keys(started), [])
        schedule, started = schedule.done(2).start(1)
        self.assertEqual(keys(started), [0])
        schedule, started = schedule.add([batch(3, 1)]).start(2)
        self.assertEqual(keys(started), [])

    def test_larger_than_the_machine_runs_alone(self) -> None:
        for demand in (Demand(cpu_slots=9), Demand(memory_mb=9000), Demand(ranks=64)):
            with self.subTest(demand=demand):
                capacity = Capacity(4, memory_mb=8000, ranks=32)
                schedule = Schedule(capacity).add([batch(0, 1, demand), batch(1, 1)])
                schedule, started = schedule.start(0)
                self.assertEqual(keys(started), [1])
                schedule, started = schedule.done(1).start(1)
                self.assertEqual(keys(started), [0])

    def test_accelerators_that_are_not_there_hold_nobody_up(self) -> None:
        schedule = Schedule(Capacity(4)).add([batch(key, 1, Demand(accelerators=2)) for key in range(2)])
        self.assertEqual(self.started(schedule), [0, 1])

    def test_each_resource_limits(self) -> None:
        capacity = Capacity(8, accelerators=2, memory_mb=1000, ranks=8)
        for demand in (
            Demand(cpu_slots=3),
            Demand(accelerators=1),
            Demand(memory_mb=500),
            Demand(ranks=4),
        ):
            with self.subTest(demand=demand):
                schedule = Schedule(capacity).add(batch(key, 1, demand) for key in range(5))
                self.assertEqual(self.started(schedule), [0, 1])

    def test_groups(self) -> None:
        """Of a group no more tests run at once than its limit allows; others pass those that wait."""
        capacity = Capacity(4, groups=(("ports", 1), ("disks", 2)))
        named = [(name, Demand(group=name)) for name in ("ports", "ports", "disks", "disks", "disks", "")]
        waiting = [batch(key, 1.0, demand) for key, (_, demand) in enumerate(named)]
        schedule, started = Schedule(capacity).add(waiting).start(0.0)
        self.assertEqual(sorted(named[key][0] for key in keys(started)), ["", "disks", "disks", "ports"])
        schedule, started = schedule.done(0).start(0.5)
        self.assertEqual(keys(started), [1])
        schedule, started = schedule.done(2).start(0.6)
        self.assertEqual(keys(started), [4])

    def test_later_ones_come_after_all_that_wait(self) -> None:
        schedule = Schedule(Capacity(1)).add([batch(0, 1)]).add([batch(1, 9)])
        self.assertEqual(self.started(schedule), [0])

    def test_done_with_what_does_not_run(self) -> None:
        with self.assertRaises(KeyError):
            Schedule(Capacity(1)).add([batch(0, 1)]).done(0)

    def test_stopped(self) -> None:
        schedule, _ = Schedule(Capacity(1)).add([batch(0, 1), batch(1, 1)]).start(0)
        schedule = schedule.stopped()
        self.assertEqual((schedule.waiting, [each.batch.key for each in schedule.running]), ((), [0]))
        self.assertEqual(schedule.done(0).running, ())

    def test_no_slots(self) -> None:
        with self.assertRaises(ValueError):
            Capacity(0)


class ReservationTest(unittest.TestCase):
    """A batch of four slots waits for one of two slots that runs until 10, and others may pass it or not."""

    def start(self, *others: Batch, now: float = 0.0) -> list[int]:
        schedule, _ = Schedule(Capacity(4)).add([batch(0, 10, slots=2)]).start(0.0)
        schedule, _ = schedule.add([batch(1, 5, slots=4)]).start(0.0)
        return keys(schedule.add(others).start(now)[1])

    def test_who_ends_in_time(self) -> None:
        self.assertEqual(self.start(batch(2, 10), batch(3, 4)), [2, 3])
        self.assertEqual(self.start(batch(2, 4), now=6.0), [2])

    def test_not_who_would_be_in_the_way(self) -> None:
        self.assertEqual(self.start(batch(2, 11)), [])
        self.assertEqual(self.start(batch(2, 5), now=6.0), [])

    def test_nobody_once_it_is_overdue(self) -> None:
        self.assertEqual(self.start(batch(2, 0), now=10.0), [2])
        self.assertEqual(self.start(batch(2, 0), now=10.1), [])

    def test_what_is_overdue_may_end_any_moment(self) -> None:
        schedule, _ = Schedule(Capacity(4)).add([batch(0, 10, slots=2)]).start(0.0)
        schedule, started = schedule.add([batch(1, 5, slots=4)]).add([batch(2, 0), batch(3, 1)]).start(20.0)
        self.assertEqual(keys(started), [2])
        self.assertEqual(schedule.due_s, 20.0)

    def test_who_leaves_it_what_it_needs(self) -> None:
        schedule, _ = Schedule(Capacity(4)).add([batch(0, 10, slots=2)]).start(0.0)
        schedule = schedule.add([batch(1, 5, slots=3)]).add([batch(2, 99), batch(3, 98)])
        self.assertEqual(keys(schedule.start(0.0)[1]), [2])


if __name__ == "__main__":
    unittest.main()
