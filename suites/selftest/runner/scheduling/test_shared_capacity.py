"""Tests where the tests of a run over several hosts can run, and that one queue uses all hosts."""

from __future__ import annotations

import unittest

from harness.runner.scheduling.batching import Batch
from harness.runner.scheduling.schedule import Capacity, Schedule
from harness.runner.scheduling.shared_capacity import HostCapacity, SharedCapacity
from harness.runner.scheduling.unit import Demand, of_id

OWN = HostCapacity("", Capacity(2), 2, there=True)
B = HostCapacity("b", Capacity(4, accelerators=2), 4, there=True)


def batch(key: int, seconds: float, demand: Demand | None = None) -> Batch:
    """A batch of one test."""
    return Batch(key, (of_id(f"m.T.t{key}", "m"),), demand or Demand(), seconds)


class PlacesTest(unittest.TestCase):
    """``places`` and ``spans``."""

    def test_table(self) -> None:
        """A test runs whole where its ranks and accelerators have room, and else spans hosts."""
        both = SharedCapacity((OWN, B))
        with_one = both.with_host("", there=True, accelerators=1)
        rows = (
            ("one process", both, Demand(), ["", "b"], False),
            ("ranks that fit on each", both, Demand(ranks=2), ["", "b"], False),
            ("ranks that fit on one", both, Demand(ranks=4), ["b"], False),
            ("ranks that fit on none", both, Demand(ranks=5), [""], True),
            ("two hosts asked for", both, Demand(ranks=2, hosts=2), [""], True),
            ("spread", SharedCapacity((OWN, B), spread=True), Demand(ranks=2), [""], True),
            ("one process, spread", SharedCapacity((OWN, B), spread=True), Demand(), ["", "b"], False),
            ("accelerators of one", both, Demand(ranks=2, accelerators=2), ["b"], False),
            ("accelerators of both", with_one, Demand(ranks=3, accelerators=3), [""], True),
            ("more accelerators than all have", with_one, Demand(ranks=4, accelerators=4), ["b"], False),
            ("an accelerator that nobody has", both, Demand(accelerators=9), ["", "b"], False),
            ("a host that is not there", both.with_host("b", there=False), Demand(), [""], False),
            ("alone, not there", both.with_host("b", there=False), Demand(ranks=4), [""], False),
            ("one host alone", SharedCapacity((OWN,)), Demand(ranks=5), [""], False),
        )
        for name, shared, demand, hosts, spans in rows:
            with self.subTest(name):
                self.assertEqual([place.host for place in shared.places(demand)], hosts)
                self.assertEqual(shared.spans(demand), spans)

    def test_needs(self) -> None:
        """A whole test takes of its host alone, one that spans hosts a part of each."""
        both = SharedCapacity((OWN, B), groups=(("g", 1),))
        here, there = both.places(Demand(ranks=2, cpu_slots=2, group="g"))
        self.assertEqual((here.need, here.column), ((2, 0, 0, 2, 0, 0, 0, 0, 1), 0))
        self.assertEqual((there.need, there.column), ((0, 0, 0, 0, 2, 0, 0, 2, 1), 4))
        (spanning,) = both.places(Demand(ranks=6, cpu_slots=3))
        self.assertEqual(spanning.need, (1, 0, 0, 2, 2, 0, 0, 4, 0))
        self.assertEqual(both.width(Demand(ranks=6, cpu_slots=3)), 3)

    def test_amounts(self) -> None:
        """A host offers nothing before it has come, and then what it has found."""
        shared = SharedCapacity((OWN, HostCapacity("b", Capacity(4), 4)))
        self.assertEqual(shared.amounts[4:], (0, 0, 0, 0))
        self.assertEqual(shared.slots, 6)
        self.assertEqual(shared.with_host("b", there=True, accelerators=3).amounts[4:6], (4, 3))
        self.assertTrue(shared.alone(Demand(exclusive=True)))
        self.assertFalse(shared.alone(Demand(cpu_slots=3)))


class QueueTest(unittest.TestCase):
    """A schedule over two hosts."""

    def test_longest_first_on_the_idle_host(self) -> None:
        """The longest tests start first, each where most is free; a host that becomes idle takes the next."""
        schedule = Schedule(SharedCapacity((OWN, B))).add([batch(key, key) for key in range(1, 9)])
        schedule, started = schedule.start(0.0)
        self.assertEqual([b.key for b in started], [8, 7, 6, 5, 4, 3])
        self.assertEqual([schedule.host_of(b.key) for b in started], ["b", "b", "", "b", "", "b"])
        schedule, started = schedule.done(6).start(1.0)
        self.assertEqual([(b.key, schedule.host_of(b.key)) for b in started], [(2, "")])

    def test_lost_host(self) -> None:
        """While tests still count for a host that was lost, the others go on, and it gets none."""
        shared = SharedCapacity((OWN, B))
        schedule, _ = Schedule(shared).add([batch(key, 1) for key in range(4)]).start(0.0)
        schedule = Schedule(shared.with_host("b", there=False), running=schedule.running)
        schedule, started = schedule.add([batch(9, 1)]).start(0.0)
        self.assertEqual([schedule.host_of(b.key) for b in started], [""])

    def test_no_starvation(self) -> None:
        """A test that spans hosts gets its turn, though short ones keep the hosts busy."""
        shared = SharedCapacity((OWN, B))
        schedule, _ = Schedule(shared).add([batch(0, 5), batch(1, 5, Demand(cpu_slots=4))]).start(0.0)
        wide = batch(2, 1, Demand(ranks=6, cpu_slots=6))
        schedule, started = schedule.add([wide, *(batch(key, 9) for key in range(3, 9))]).start(0.0)
        self.assertEqual(started, ())  # one slot is free, which the wide test will need
        schedule, started = schedule.done(0).done(1).start(5.0)
        self.assertEqual(started[0], wide)


if __name__ == "__main__":
    unittest.main()
