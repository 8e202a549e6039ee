"""``Join``, by classes of our own: who shadows whom, in which order, how often, and who is told to end.

DDP under ``join`` is in ``test_ddp_synchronization``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.c10d.base import C10dTestCase
from suites.c10d.noting import NotingTestCase

#: How many turns each rank takes, by rank: the second one is among the last.
TURNS = (1, 3, 3)


class Hook(JoinHook):
    """Does in a rank without turns what the others do in theirs."""

    def __init__(self, owner):
        self.owner = owner

    def main_hook(self):
        self.owner.said.append(f"{self.owner.name} shadows")
        self.owner.add(0)

    def post_hook(self, is_last_joiner):
        self.owner.said.append(f"{self.owner.name} ends, last: {is_last_joiner}")


class Adder(Joinable):
    """Adds one number of each rank up in each turn; what it says goes into a list that several share."""

    def __init__(self, name, said, group=None, device="cpu"):
        super().__init__()
        self.name, self.said, self.group, self.device = name, said, group, device
        self.sums = []

    def turn(self, number):
        work = Join.notify_join_context(self)
        self.said.append(f"{self.name} {'notifies' if work is not None else 'does not'}")
        if work is not None:
            work.wait()
        self.add(number)

    def add(self, number):
        total = torch.tensor([float(number)], device=self.device)
        dist.all_reduce(total, group=self.group)
        self.sums.append(total.item())

    def join_hook(self, **kwargs):
        self.said.append(f"{self.name} is given {kwargs}")
        return Hook(self)

    @property
    def join_device(self):
        return torch.device(self.device)

    @property
    def join_process_group(self):
        return self.group or dist.group.WORLD


class Silent(Adder):
    """Forgets to call its parent's constructor."""

    def __init__(self):
        pass


class JoinTest(C10dTestCase):
    """Three ranks, of which the first ends first."""

    world_size = 3

    def prepare(self):
        self.said = []
        self.one, self.other = (Adder(name, self.said, device=self.device) for name in ("one", "other"))

    def turns(self, count):
        for turn in range(count):
            for each in (self.one, self.other):
                each.turn(10 * turn + self.rank + 1)

    def test_two_that_join(self):
        """The first of them notifies for both; in ranks that are done both shadow, in the order given."""
        with Join([self.one, self.other], more=1):
            self.turns(TURNS[self.rank])
        given = ["one is given {'more': 1}", "other is given {'more': 1}"]
        turn, shadowed = ["one notifies", "other does not"], ["one shadows", "other shadows"]
        shadows = max(TURNS) - TURNS[self.rank]
        last = shadows == 0
        ends = [f"one ends, last: {last}", f"other ends, last: {last}"]
        self.assertEqual(self.said, given + turn * TURNS[self.rank] + shadowed * shadows + ends)
        # What the ranks that are still there give: all three in the first turn, two in the others.
        for each in (self.one, self.other):
            self.assertEqual(each.sums, [1.0 + 2 + 3, 12.0 + 13, 22.0 + 23])

    def test_disabled(self):
        """Nobody notifies or shadows, so that all take as many turns."""
        with Join([self.one, self.other], enable=False):
            self.turns(2)
        turn = ["one does not", "other does not"]
        self.assertEqual(self.said, ["one is given {}", "other is given {}", *turn, *turn])
        self.check_group_works()

    def test_an_exception_inside(self):
        """Leaves as it is, without hooks."""
        with self.refused(KeyError, "mine"), Join([self.one]):
            raise KeyError("mine")
        self.assertEqual(self.said, ["one is given {}"])
        self.check_group_works()

    def test_told_to_end(self):
        """Once a rank is done, all raise before the next turn: none shadows."""
        words = (
            "Rank 0 exhausted all inputs."
            if self.rank == 0
            else "Detected at least one rank that exhausted inputs. Throwing across all ranks."
        )
        with (
            self.refused(RuntimeError, words),
            Join([self.one, self.other], throw_on_early_termination=True),
        ):
            self.turns(TURNS[self.rank])
        self.assertEqual(self.said[2:], ["one notifies", "other does not"])
        self.assertEqual(self.one.sums, [6.0])
        self.check_group_works()

    def test_told_to_end_where_all_are_done(self):
        with Join([self.one], throw_on_early_termination=True):
            self.one.turn(self.rank)
        self.assertEqual(self.said[-1], "one ends, last: True")
        self.assertEqual(self.one.sums, [3.0])

    @needs(Capability.SUB_GROUPS)
    def test_in_a_group(self):
        """Only its ranks take part, by their ranks among all in words."""
        group = dist.new_group([0, 2])
        if self.rank == 1:
            return
        one = Adder("one", self.said, group, self.device)
        words = "Rank 1 exhausted" if self.rank == 2 else "Detected at least one rank"
        with self.refused(RuntimeError, words), Join([one], throw_on_early_termination=True):
            for _ in range(2 - self.rank // 2):
                one.turn(self.rank + 1)
        self.assertEqual(one.sums, [4.0])

    @needs(Capability.SUB_GROUPS)
    def test_refused(self):
        with self.refused(ValueError, "requires at least one joinable"):
            Join([])
        group = dist.new_group()
        with self.refused(ValueError, "Using join context manager with multiple process groups"):
            Join([self.one, Adder("another", self.said, group, self.device)])
        with self.refused(AssertionError, "Silent'> constructor calls the ``Joinable`` constructor"):
            Join.notify_join_context(Silent())


class JoinAloneTest(NotingTestCase):
    """The context by itself, rank 1 of 3, which is told how many others have not joined."""

    def joined(self, others):
        """Leave a context while that many turns of others follow; returns hooks' words and warnings."""
        said, asked = [], []
        one, other = Adder("one", said), Adder("other", said, device="meta")
        left = iter([*[2] * others, 0])

        def reduced(tensor, group=None, **_):
            asked.append((tensor.device.type, tensor.item(), group))
            tensor.fill_(next(left))

        with warnings.catch_warnings(record=True) as warned:
            context = Join([one, other])
            one.add = other.add = lambda number: None
            with mock.patch.object(dist, "all_reduce", reduced), context:
                pass
            # It sets how often its warning is shown itself.
            self.assertEqual(warnings.filters[0][0], "once")
        self.assertEqual(set(asked), {("cpu", 0.0, dist.group.WORLD)})
        return said, [str(each.message) for each in warned]

    def test_shadows(self):
        """As many as there are turns of others, on the device of the first."""
        for others in (0, 1, 3):
            said, _ = self.joined(others)
            shadows = ["one shadows", "other shadows"] * others
            self.assertEqual(said[2:-2], shadows)
            self.assertEqual(said[-2:], [f"{name} ends, last: {others == 0}" for name in ("one", "other")])

    def test_far_behind(self):
        """It warns, once, of more than a thousand turns."""
        self.assertEqual(self.joined(1000)[1], [])
        for others in (1001, 1003):
            (words,) = self.joined(others)[1]
            self.assertIn(
                "input skew of greater than 1000. This means that rank 1 has at least 1000 fewer", words
            )

    def test_what_those_that_join_are_told(self):
        """Whether it is on, whether it throws, and who is first; nothing is before a context."""
        ones = [Adder(name, []) for name in "abc"]
        self.assertEqual([each._join_config for each in ones], [(False, False, False)] * 3)
        for given, first, others in (
            ({}, (True, False, True), (True, False, False)),
            ({"enable": False}, (False, False, True), (False, False, False)),
            ({"throw_on_early_termination": True}, (True, True, True), (True, True, False)),
        ):
            Join(ones, **given)
            self.assertEqual([each._join_config for each in ones], [first, others, others])


if __name__ == "__main__":
    run_tests()
