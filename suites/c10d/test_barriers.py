"""``barrier`` and ``monitored_barrier``: nobody leaves before all have come, and who is missing gets named.

Every member announces itself on the board before it enters, and looks for the others when it is through.
Looking does not wait. Each member in turn comes last, after the others have announced themselves.
"""

from __future__ import annotations

import sys
import unittest
from datetime import timedelta
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch.distributed as dist

from harness import conformance, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from harness.targets import Capability, needs
from suites.c10d.base import OnSubGroup, await_keys, instantiate_world_sizes

#: How long a barrier is given that must not be passed. The ranks that enter it have met just before, so that
#: only those are missing that never come; the slowest machine gets from one call to the next in this time.
PATIENCE = timedelta(milliseconds=300)


def check_nobody_leaves_early(case, barrier, name, members, late):
    """Run ``barrier()`` on all members, ``late`` being the last to come, and see who was there after it."""
    case.come_last(late, f"{name} before", members)
    case.board.set(f"{name} entered/{case.rank}", "here")
    barrier()
    missing = [rank for rank in members if not case.board.check([f"{name} entered/{rank}"])]
    case.assertEqual(missing, [], f"rank {late} came last")


@needs(Capability.BARRIER)
class Barriers:
    """Barriers on the default group that everybody enters."""

    def check_waits(self, name, barrier, **called):
        """Run ``barrier()`` once for each member as the last to come; ``called`` is for the cell."""
        with conformance.cell(name, **{**self.called, **called}):
            for turn, late in enumerate(reversed(self.members)):
                check_nobody_leaves_early(self, barrier, f"turn {turn}", self.members, late)

    def test_barrier(self):
        self.check_waits("barrier", lambda: self.assertIsNone(dist.barrier(group=self.group)))

    @needs(Capability.ASYNCHRONOUS)
    def test_barrier_async(self):
        self.check_waits(
            "barrier",
            lambda: self.assertIs(dist.barrier(group=self.group, async_op=True).wait(), True),
            way="async",
        )

    @needs(Capability.MONITORED_BARRIER)
    def test_monitored_barrier(self):
        self.check_waits(
            "monitored_barrier", lambda: self.assertIsNone(dist.monitored_barrier(group=self.group))
        )

    @needs(Capability.MONITORED_BARRIER)
    def test_monitored_barrier_wait_all_ranks(self):
        self.check_waits(
            "monitored_barrier", lambda: dist.monitored_barrier(group=self.group, wait_all_ranks=True)
        )


class SubGroupBarriers(OnSubGroup, Barriers):
    """Barriers on sub-groups that all their members enter."""


@needs(Capability.SUB_GROUPS, Capability.BARRIER)
class BarrierMembers:
    """Barriers of a group that some rank is not in."""

    def barriers(self):
        """Return the names of the barriers that the target has."""
        monitored = Capability.MONITORED_BARRIER in self.target.capabilities
        return ("barrier", "monitored_barrier") if monitored else ("barrier",)

    def test_barrier_group(self):
        # Rank 0 is not in it, and stays away until the members are through: who waits for it hangs.
        members = range(1, self.world_size)
        group = dist.new_group(list(members), backend=self.backend)
        for name in self.barriers():
            with self.subTest(barrier=name):
                if self.rank in members:
                    barrier = partial(getattr(dist, name), group=group)
                    check_nobody_leaves_early(self, barrier, name, members, members[-1])
                self.come_last(0, f"through {name}", range(self.world_size))

    def test_outsiders_are_warned_and_pass(self):
        group = dist.new_group([0], backend=self.backend)
        for name in self.barriers():
            with self.subTest(barrier=name):
                if self.rank == 0:
                    getattr(dist, name)(group=group)
                else:
                    with self.warned_as_outsider(name):
                        self.assertIsNone(getattr(dist, name)(group=group))


@needs(Capability.TIMEOUTS)
class MissingRanks:
    """Barriers that some rank never enters; on a group of their own, as a gloo group that failed is gone."""

    def impatient_group(self):
        """Return a group of all ranks that gives up after ``PATIENCE``."""
        return dist.new_group(timeout=PATIENCE, backend=self.backend)

    def meet(self, where, *ranks):
        """Return when all of ``ranks``, the caller being one, have come here."""
        self.board.set(f"{where}/{self.rank}", "here")
        await_keys(self.board, (f"{where}/{rank}" for rank in ranks))

    def check_gives_up(self, barrier, absent):
        """Run ``barrier(group)`` on all ranks but ``absent``; return what its RuntimeError says to this rank.

        The absent rank leaves when the others have given up, so that they miss it, and not its process.
        """
        group = self.impatient_group()
        present = [rank for rank in range(self.world_size) if rank not in absent]
        text = None
        if self.rank in present:
            self.meet("about to enter", *present)
            with self.assertRaises(RuntimeError) as caught:
                barrier(group)
            text = str(caught.exception)
            self.board.set(f"gave up/{self.rank}", "here")
        await_keys(self.board, (f"gave up/{rank}" for rank in present))
        self.check_group_works()
        return text

    def check_is_timeout(self, text):
        """Check that a barrier that says ``text`` timed out, or found that a peer had."""
        timed_out = r"Timed out waiting 300ms for (send|recv) operation"
        if text is not None and self.backend == "gloo":
            self.assertRegex(text, f"{timed_out}|Connection closed by peer")

    @needs(Capability.BARRIER)
    def test_barrier_timeout_group(self):
        text = self.check_gives_up(lambda group: dist.barrier(group=group), absent=[0])
        self.check_is_timeout(text)

    @unittest.skipUnless(torch_at_least("2.12"), "barrier(timeout=) is new in torch 2.12")
    @needs(Capability.BARRIER)
    def test_barrier_timeout_arg(self):
        # The group itself would wait for a minute.
        patient = dist.new_group(backend=self.backend)
        text = self.check_gives_up(
            lambda _: dist.barrier(group=patient, timeout=PATIENCE, async_op=True).wait(), absent=[0]
        )
        self.check_is_timeout(text)

    def check_sent_to_rank_0(self, text):
        """Check that this rank, which came and is not rank 0, cannot say who did not."""
        self.assertIn(f"Rank {self.rank} successfully reached monitoredBarrier, but received", text)
        self.assertIn("Please check rank 0 logs for faulty rank.", text)

    def check_monitored(self, absent, blamed, **options):
        """Check that rank 0 says ``blamed``, and that the others that came say to ask rank 0."""
        text = self.check_gives_up(
            lambda group: dist.monitored_barrier(group=group, timeout=PATIENCE, **options), absent
        )
        if self.rank == 0:
            self.assertIn(f"[Rank 0]: {blamed} failed to pass monitoredBarrier in 300 ms", text)
        elif text is not None:
            self.check_sent_to_rank_0(text)

    @needs(Capability.MONITORED_BARRIER)
    def test_monitored_barrier_names_the_missing_rank(self):
        last = self.world_size - 1
        self.check_monitored([last], f"Rank {last}")

    @needs(Capability.MONITORED_BARRIER)
    def test_monitored_barrier_failure_order(self):
        # It asks rank by rank, and the first that does not answer ends it.
        self.check_monitored(range(1, self.world_size), "Rank 1")

    @needs(Capability.MONITORED_BARRIER)
    def test_monitored_barrier_missing_with_wait_all_ranks(self):
        absent = range(1, self.world_size)
        names = ", ".join(str(rank) for rank in absent)
        self.check_monitored(absent, f"Ranks {names}", wait_all_ranks=True)

    @needs(Capability.MONITORED_BARRIER)
    def test_monitored_barrier_rank_0_missing(self):
        # Nobody is there to name the missing; the others wait for rank 0 as long as their group does.
        text = self.check_gives_up(lambda group: dist.monitored_barrier(group=group), absent=[0])
        if self.rank != 0:
            self.check_sent_to_rank_0(text)

    @needs(Capability.MONITORED_BARRIER)
    def test_monitored_barrier_timeout_type(self):
        with self.refused(TypeError, "Expected timeout argument to be of type datetime.timedelta"):
            dist.monitored_barrier(timeout=3)
        self.check_group_works()


instantiate_world_sizes(globals(), Barriers, MissingRanks)
instantiate_world_sizes(globals(), SubGroupBarriers, BarrierMembers, sizes=(3, 4))


if __name__ == "__main__":
    run_tests()
