"""Tests ``with_comms``, which gives a method a process group and destroys it whatever happens."""

from __future__ import annotations

import unittest
from unittest import mock

import torch

from harness import TestOutcome
from harness.cases.comms import with_comms
from suites.selftest.cases import dtensor_bodies as bodies


class WithCommsTest(unittest.TestCase):
    """After ``with_comms`` the group is gone, and the first error is the one that is reported."""

    def check_groups_gone(self, outcome: TestOutcome) -> None:
        self.assertEqual([o.output for o in outcome.ranks], ["group left: False\n"] * len(outcome.ranks))

    def test_body_raises(self) -> None:
        """A body that raises on every rank is reported with its own error."""
        result, outcome = bodies.play(bodies.Faulty, "test_body_raises")
        self.assertEqual(len(result.errors), 1)
        self.assertIn("ValueError: the body's own error", bodies.said(result))
        self.assertIn("ranks 0-3", bodies.said(result))
        self.check_groups_gone(outcome)

    def test_one_rank_raises(self) -> None:
        """A rank that raises alone is the root cause, and no peer sees a closed connection before."""
        result, outcome = bodies.play(bodies.Faulty, "test_one_rank_raises")
        self.assertEqual(outcome.root_cause, 2, bodies.said(result))
        self.assertIn("ValueError: rank 2's own error", bodies.said(result))
        self.assertIn("all_reduce #1 of the default group", bodies.said(result))
        self.assertNotIn("closed by peer", bodies.said(result))

    def test_unknown_backend(self) -> None:
        """An unknown backend is an error that lists the known ones, before any group is made."""
        result, outcome = bodies.play(bodies.Faulty, "test_unknown_backend")
        self.assertIn(
            "UsageError: torch knows no process group backend 'pigeon'; it knows", bodies.said(result)
        )
        self.assertIn("gloo", bodies.said(result))
        self.check_groups_gone(outcome)

    @unittest.skipIf(torch.distributed.is_mpi_available(), "this build has MPI")
    def test_backend_that_this_build_lacks(self) -> None:
        """A backend that this build lacks is a skip with the reason."""
        result, outcome = bodies.play(bodies.Faulty, "test_backend_that_this_build_lacks")
        self.assertEqual(
            [reason for _, reason in result.skipped], ["this build of torch has no backend 'mpi'"]
        )
        self.check_groups_gone(outcome)

    def test_skip(self) -> None:
        """A body that skips is a skip."""
        result, outcome = bodies.play(bodies.Faulty, "test_skips")
        self.assertEqual([reason for _, reason in result.skipped], ["not today"])
        self.check_groups_gone(outcome)

    def test_ends_that_pass(self) -> None:
        """A body may destroy its group itself, and may go on after another body that failed."""
        for method in ("test_destroys_the_group_itself", "test_catches_what_the_body_raised"):
            with self.subTest(method):
                result, outcome = bodies.play(bodies.Faulty, method)
                self.assertEqual(bodies.said(result), "")
                self.check_groups_gone(outcome)

    def test_without_init_pg(self) -> None:
        """On a class without init_pg the method runs as it is."""
        method = mock.Mock(__name__="method")
        case = object()
        with_comms(method)(case, 1, word="two")
        method.assert_called_once_with(case, 1, word="two")

    def test_returned_value(self) -> None:
        """What the method returns is returned, so that unittest sees a coroutine that nobody runs."""
        for case in (object(), mock.Mock()):
            self.assertEqual(with_comms(lambda self: "value")(case), "value")

    def test_group_and_arguments_of_init_pg(self) -> None:
        """``eager_init`` and ``backend`` are passed to init_pg in this order."""
        case = mock.Mock(spec_set=("init_pg", "destroy_pg", "body"))
        with_comms(lambda self: self.body())(case)
        with_comms(eager_init=True, backend="gloo")(lambda self: self.body())(case)
        made = [mock.call.init_pg(False, None), mock.call.init_pg(True, "gloo")]
        rest = [mock.call.body(), mock.call.destroy_pg()]
        self.assertEqual(case.mock_calls, [made[0], *rest, made[1], *rest])


if __name__ == "__main__":
    unittest.main()
