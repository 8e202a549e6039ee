"""Self-tests of harness.report.activity: the phrase about each rank."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness import cases
from harness.communication_call import Call, Kind, Signature
from harness.outcomes import RankOutcome, Status
from harness.report.activity import activities, doing
from suites.selftest.report import samples
from suites.selftest.report.samples import HISTORY, TORCH, call, failing, stack, waiting

HERE = "(test_sum.py:3 in test_sum)"
MAKING = Signature("init_process_group", "0", Kind.MAKING, default=True)
RENDEZVOUS = f"{TORCH}/rendezvous.py"


class DoingTest(unittest.TestCase):
    """``doing``: the phrase about one rank."""

    def test_table(self) -> None:
        """Each status, with and without collectives and stack, gives its phrase."""
        ended = Status.ENDED
        user = 'Thread 0x1 (most recent call first):\n  File "/home/me/t.py", line 7 in spin\n'
        inner = user.replace("/home/me/t.py", cases.__file__).replace("spin", "collect")
        table = {
            "waits in all_reduce #5 of group 0 (test_sum.py:21 in test_sum)": waiting(0),
            "waits in barrier #1 of group dp": RankOutcome(0, ended, calls=(call("barrier", 1, group="dp"),)),
            "waits in barrier #1 of group 0 (t.py:3 in test_x)": RankOutcome(
                0, ended, calls=(replace(call("barrier", 1), place="t.py:3 in test_x"),)
            ),
            f"waits in init_process_group, for the other ranks to join {HERE}": RankOutcome(
                0, Status.TIMED_OUT, stack=stack("init_process_group", 3)
            ),
            "waits in the rendezvous, for its store (test_sum.py:3 in test_sum)": RankOutcome(
                0, ended, stack=stack("_file_rendezvous_handler", 3, file=RENDEZVOUS)
            ),
            "is at t.py:7 in spin": RankOutcome(0, ended, stack=user),
            "is at t.py:7 in spin after all_reduce #4 of group 0": RankOutcome(
                0, ended, stack=user, calls=HISTORY
            ),
            "is at __init__.py:7 in collect, outside the test's code": RankOutcome(0, ended, stack=inner),
            "waits for its turn to run (t.py:7 in spin)": RankOutcome(0, ended, stack=user, phase="turn"),
            "was in phase 'start', without a stack": RankOutcome(0, ended, phase="start"),
            "had passed": RankOutcome(0, Status.PASSED),
            "had passed after all_reduce #4 of group 0": RankOutcome(0, Status.PASSED, calls=HISTORY),
            "had passed after init_process_group": RankOutcome(
                0,
                Status.PASSED,
                calls=(Call(MAKING, 1, 1, 1.0, ended_s=2.0),),
            ),
            "skipped (no GPU)": RankOutcome(0, Status.SKIPPED, skip_reason="no GPU"),
            "failed AssertionError: 3 != 4 after all_reduce #4 of group 0": failing(0),
            f"raised {samples.LOST_PEER.headline} in all_reduce #5 of group 0": replace(
                failing(0, error=samples.LOST_PEER), calls=waiting(0).calls
            ),
            "crashed with signal SIGSEGV in all_reduce #5 of group 0": replace(
                waiting(0), status=Status.CRASHED, exit_code=-11
            ),
            "crashed with exit code 0": RankOutcome(0, Status.CRASHED, exit_code=0),
        }
        for said, outcome in table.items():
            with self.subTest(said):
                self.assertEqual(doing(outcome), said)

    def test_a_collective_that_encloses_others_is_the_one_waited_for(self) -> None:
        """Of nested collectives, the outer one that has not returned is named."""
        records = (call("all_gather_object", 1), call("all_gather", 1, back=True, group="1"))
        outcome = RankOutcome(0, Status.ENDED, calls=records)
        self.assertEqual(doing(outcome), "waits in all_gather_object #1 of group 0")


class ActivitiesTest(unittest.TestCase):
    """``activities``: the phrases about all ranks."""

    def test_ranks_that_do_the_same_are_one(self) -> None:
        ranks = [waiting(3), waiting(1, "broadcast"), waiting(0), waiting(2)]
        self.assertEqual(
            activities(ranks),
            "ranks 0, 2, 3 wait in all_reduce #5 of group 0 (test_sum.py:21 in test_sum); "
            "rank 1 waits in broadcast #5 of group 0 (test_sum.py:23 in test_sum)",
        )


if __name__ == "__main__":
    unittest.main()
