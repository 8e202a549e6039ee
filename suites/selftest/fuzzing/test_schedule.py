"""Tests the ranks' actions: each handle is waited for, and a simulation of blocking calls never deadlocks."""

from __future__ import annotations

import unittest
from collections.abc import Sequence

from hypothesis import given

from harness.fuzzing import CollectiveStep, Message, Program, Regroup, Straggler, programs
from harness.fuzzing.schedule import ALL, EXPIRES, OWN, RECEIVE, SEND, RankAction, schedule
from harness.hypothesis_examples import bounded

EVERYONE = (0, 1, 2)


def counterparts(program: Program, action: RankAction, rank: int) -> set[tuple[int, int, str]]:
    """The calls, as (step, rank, part), that must have been made before an action can return."""
    step = program.steps[action.number]
    if isinstance(step, CollectiveStep) and action.part == EXPIRES:
        return {(action.number, peer, ALL) for peer in step.group if rank == step.missing != peer}
    if isinstance(step, CollectiveStep):
        return {(action.number, peer, ALL) for peer in step.group}
    if isinstance(step, Message):
        return {(action.number, step.source, SEND), (action.number, step.target, RECEIVE)}
    if isinstance(step, Regroup):
        return {(action.number, other, ALL) for other in step.group if rank in step.group}
    others = set(range(program.world_size)) - {rank}
    return {(action.number, other, ALL) for other in others} if rank == step.rank else set()


def stuck(program: Program, schedules: Sequence[Sequence[RankAction]]) -> list[int]:
    """The ranks that never finish, if each call that may block does so until its counterparts are made."""
    position = [0] * len(schedules)
    called: set[tuple[int, int, str]] = set()
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(schedules):
            while position[rank] < len(actions):
                action = actions[position[rank]]
                if not action.waits:
                    called.add((action.number, rank, action.part))
                if not action.later and not counterparts(program, action, rank) <= called:
                    break
                position[rank] += 1
                moved = True
    return [rank for rank, actions in enumerate(schedules) if position[rank] < len(actions)]


def schedules(program: Program) -> list[tuple[RankAction, ...]]:
    return [schedule(program, rank) for rank in range(program.world_size)]


class Schedules(unittest.TestCase):
    """The actions of each rank."""

    @bounded(300)
    @given(programs(3, max_steps=12))
    def test_no_program_deadlocks(self, program: Program) -> None:
        self.assertEqual(stuck(program, schedules(program)), [])

    def test_the_simulation_sees_a_deadlock(self) -> None:
        program = Program(2, (Message(0, 1, (0, 1)), Message(1, 0, (0, 1))))
        first, second = (RankAction((n, OWN), n, SEND) for n in (0, 1))
        crossed = [
            [first, RankAction((1, OWN), 1, RECEIVE)],
            [second, RankAction((0, OWN), 0, RECEIVE)],
        ]
        self.assertEqual(stuck(program, crossed), [0, 1])

    @bounded(100)
    @given(programs(3))
    def test_every_handle_is_waited_for_once_and_later(self, program: Program) -> None:
        for actions in schedules(program):
            self.assertEqual(list(actions), sorted(actions))
            calls = [(a.number, a.part) for a in actions if a.later]
            waits = [(a.number, a.part) for a in actions if a.waits]
            self.assertEqual(sorted(calls), sorted(waits))
            for each in calls:
                begun = [(a.number, a.part) == each and a.later for a in actions].index(True)
                waited = [(a.number, a.part) == each and a.waits for a in actions].index(True)
                self.assertLess(begun, waited)

    @bounded(200)
    @given(programs(3, max_steps=12))
    def test_what_begins_on_a_group_ends_on_it(self, program: Program) -> None:
        """Before the group is made anew: both ends of a message, calls and their waits."""
        for actions in schedules(program):
            begun: dict[tuple[int, str], int] = {}
            turns: dict[tuple[int, ...], int] = {}
            for action in actions:
                step = program.steps[action.number]
                if isinstance(step, Regroup):
                    turns[step.group] = action.number
                elif not isinstance(step, Straggler):
                    turn = turns.get(step.group, -1)
                    self.assertLess(turn, action.number)
                    self.assertEqual(begun.setdefault((action.number, action.part), turn), turn)

    def test_a_delay_counts_further_steps(self) -> None:
        steps = (CollectiveStep("all_reduce", EVERYONE, delay=1), *[CollectiveStep("barrier", EVERYONE)] * 3)
        self.assertEqual(
            [(a.number, a.waits) for a in schedule(Program(3, steps), 0)],
            [(0, False), (1, False), (0, True), (2, False), (3, False)],
        )

    def test_a_missing_rank_comes_when_the_others_have_waited(self) -> None:
        step = CollectiveStep("all_reduce", EVERYONE, delay=0, missing=1)
        program = Program(3, (step, CollectiveStep("barrier", EVERYONE)))
        for rank in EVERYONE:
            parts = [(ALL, False, True), (EXPIRES, False, False), (ALL, True, False)]
            if rank == 1:
                parts[:2] = parts[1::-1]
            told = [(a.part, a.waits, a.later) for a in schedule(program, rank) if a.number == 0]
            self.assertEqual(told, parts)

    def test_what_is_taken_up_is_waited_for_before(self) -> None:
        steps = (
            CollectiveStep("broadcast", EVERYONE, delay=3),
            CollectiveStep("barrier", EVERYONE),
            CollectiveStep("all_reduce", EVERYONE, takes=0),
        )
        self.assertEqual(
            [(a.number, a.waits) for a in schedule(Program(3, steps), 0)],
            [(0, False), (1, False), (0, True), (2, False)],
        )

    def test_the_ends_of_a_message_lie_apart(self) -> None:
        barrier = CollectiveStep("barrier", EVERYONE)
        program = Program(3, (Message(0, 1, EVERYONE, send=0, lag=2), barrier, barrier, barrier))
        source, target, other = (
            [(a.number, a.part, a.waits) for a in schedule(program, r)] for r in (0, 1, 2)
        )
        barriers = [(n, ALL, False) for n in (1, 2, 3)]
        self.assertEqual(source, [(0, SEND, False), *barriers[:2], (0, SEND, True), barriers[2]])
        self.assertEqual(target, [barriers[0], (0, RECEIVE, False), *barriers[1:]])
        self.assertEqual(other, barriers)

    def test_a_lag_beyond_the_end_is_the_end(self) -> None:
        program = Program(2, (Message(0, 1, (0, 1), receive=0, lag=-3), Straggler(0)))
        self.assertEqual([a.number for a in schedule(program, 0)], [1, 0])
        self.assertEqual(
            [(a.number, a.waits) for a in schedule(program, 1)], [(0, False), (1, False), (0, True)]
        )


if __name__ == "__main__":
    unittest.main()
