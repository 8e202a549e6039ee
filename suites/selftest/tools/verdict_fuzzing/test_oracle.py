"""Tests the oracle's decisions as a table: what is drawn, and the verdicts and causes that it demands."""

from __future__ import annotations

import ast
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.verdict_fuzzing import case, limits, model, observation, oracle
from tools.verdict_fuzzing.case import FuzzCase
from tools.verdict_fuzzing.observation import NO_VERDICT, Observation
from tools.verdict_fuzzing.oracle import expected, objections

# Rank 1 of three fails an assertion in its body while the others pass.
FAILS = FuzzCase(1, "fresh", "forkserver", "unittest", 3, "assertion", (1,), "body", "pass")
EVERYBODY = (0, 1, 2)

# What differs from FAILS, the verdicts that are right, and the ranks of which one has to be the cause.
TABLE: tuple[tuple[dict[str, Any], set[str], set[int]], ...] = (
    ({}, {"fail"}, {1}),
    ({"fault": "nothing"}, {"pass"}, set()),
    ({"fault": "value_error"}, {"error"}, {1}),
    ({"fault": "sys_exit_0"}, {"error"}, {1}),
    ({"fault": "os_exit_0"}, {"error"}, {1}),
    ({"fault": "os_exit_0", "moment": "exit"}, {"pass"}, set()),
    ({"fault": "os_exit_3", "moment": "exit"}, {"error"}, {1}),
    ({"fault": "native_sleep"}, {"error"}, {1}),
    ({"fault": "sleep_loop", "peers": "collective"}, {"error"}, {1}),
    ({"fault": "sleep_loop", "peers": "busy"}, {"error"}, {0, 1, 2}),
    ({"fault": "sleep_loop", "peers": "fail"}, {"fail"}, {0, 2}),
    ({"fault": "sigsegv", "peers": "collective"}, {"error"}, {1}),
    ({"fault": "sigsegv", "peers": "fail"}, {"fail", "error"}, {0, 1, 2}),
    ({"fault": "skip"}, {"error"}, set()),
    ({"fault": "skip", "strikers": EVERYBODY}, {"skip"}, set()),
    ({"fault": "skip", "peers": "skip"}, {"skip"}, set()),
    ({"fault": "skip", "peers": "fail"}, {"error"}, {0, 2}),
    ({"fault": "skip", "moment": "sub-test"}, {"error"}, set()),
    ({"fault": "skip", "moment": "sub-test", "strikers": EVERYBODY}, {"pass"}, set()),
    ({"peers": "skip"}, {"error"}, {1}),
    ({"fault": "nothing", "peers": "skip"}, {"error"}, set()),
    ({"fault": "sub_test_fails_then_skip", "strikers": EVERYBODY}, {"fail"}, {0, 1, 2}),
    ({"fault": "async_method", "strikers": EVERYBODY}, {"fail", "error"}, set()),
    ({"fault": "process_left"}, {"pass"}, set()),
    ({"fault": "process_left", "strict": True}, {"error"}, set()),
    ({"fault": "sigkill", "moment": "import", "strikers": EVERYBODY}, {"error"}, set()),
    ({"expected_failure": True}, {"expected failure"}, set()),
    ({"expected_failure": True, "moment": "sub-test"}, {"expected failure"}, set()),
    ({"expected_failure": True, "moment": "tear-down"}, {"fail"}, {1}),
    ({"expected_failure": True, "fault": "nothing"}, {"unexpected success"}, set()),
    ({"expected_failure": True, "fault": "sigkill"}, {"error"}, {1}),
    ({"expected_failure": True, "fault": "sigstop"}, {"error"}, {1}),
    ({"expected_failure": True, "fault": "skip"}, {"error"}, set()),
    ({"expected_failure": True, "fault": "skip", "strikers": EVERYBODY}, {"skip"}, set()),
)


class ExpectedTest(unittest.TestCase):
    """What ``expected`` demands."""

    def test_table(self) -> None:
        """Each case has these verdicts and these causes, and no others."""
        for differences, verdicts, causes in TABLE:
            with self.subTest(**differences):
                wanted = expected(replace(FAILS, **differences))
                self.assertEqual((set(wanted.verdicts), set(wanted.causes)), (verdicts, causes))

    def test_due(self) -> None:
        """A verdict waits for the grace, the deadline or the skip grace only where a rank says nothing."""
        for differences, limit in (
            ({}, None),
            ({"peers": "collective"}, "grace_s"),
            ({"fault": "sigkill", "peers": "store"}, "grace_s"),
            ({"fault": "skip", "peers": "store"}, "skip_grace_s"),
            ({"fault": "sleep_loop"}, "deadline_s"),
            ({"fault": "sleep_loop", "moment": "exit"}, "exit_grace_s"),
            ({"fault": "assertion", "moment": "late", "peers": "collective"}, None),
        ):
            with self.subTest(**differences):
                drawn = replace(FAILS, **differences)  # type: ignore[arg-type]  # the fields are what they are
                due = getattr(limits.limits_of(drawn, 2.0), limit) if limit else 0.0
                wanted = expected(drawn, 2.0)
                self.assertEqual(wanted.due_s, due)
                self.assertGreater(wanted.latest_s, due)

    def test_external_rank_stays_lost(self) -> None:
        """After a rank that somebody else started has died, the next test cannot pass."""
        dead = replace(FAILS, mode="external", launcher="external", fault="sigkill")
        self.assertNotIn("pass", expected(dead).after)
        self.assertEqual(expected(replace(dead, fault="assertion")).after, {"pass"})

    def test_independence(self) -> None:
        """Neither the oracle nor what it stands on imports anything of the harness."""
        for module in (case, limits, model, observation, oracle):
            tree = ast.parse(Path(str(module.__file__)).read_text())
            names = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
            names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
            with self.subTest(module.__name__):
                self.assertEqual([name for name in names if name.split(".")[0] == "harness"], [])


class ObjectionsTest(unittest.TestCase):
    """What ``objections`` finds wrong."""

    RIGHT = Observation(
        "fail", "Seed1: failed\ncause: rank 1 failed: AssertionError", "pass", "pass", seconds=0.1
    )

    def of(self, **differences: Any) -> list[str]:
        """What is wrong with an observation that differs from the right one in these fields."""
        return objections(FAILS, expected(FAILS), replace(self.RIGHT, **differences))

    def test_table(self) -> None:
        """The right observation is right, and each that differs in one thing is wrong for that."""
        self.assertEqual(self.of(), [])
        for differences, told in (
            ({"verdict": "pass"}, "the verdict is pass"),
            ({"verdict": NO_VERDICT}, "the verdict is none"),
            ({"text": "cause: rank 2 failed"}, "ranks [2] are named as the cause"),
            ({"text": "no more than this"}, "no cause is named"),
            ({"seconds": 1e4}, "it took 10000.0 s, and 0.0 s were due"),
            ({"before": "error"}, "the test before it: error"),
            ({"after": "error"}, "the test after it: error"),
            ({"left": ("processes left: {7: 'sleep'}",)}, "processes left: {7: 'sleep'}"),
        ):
            with self.subTest(**differences):
                self.assertEqual(self.of(**differences), [told])

    def test_skips(self) -> None:
        """A divergent skip has to name those that skipped, and what went wrong on the others."""
        drawn = replace(FAILS, fault="sigkill", peers="skip")
        wanted = expected(drawn)
        text = (
            "cause: divergent skip: ranks 0, 2 skipped (why), rank 1 did not (rank 1 crashed: signal SIGKILL)"
        )
        right = replace(self.RIGHT, verdict="error", text=text)
        self.assertEqual(objections(drawn, wanted, right), [])
        other = replace(right, text=text.replace("ranks 0, 2", "ranks 0, 1"))
        self.assertEqual(objections(drawn, wanted, other), ["ranks [0, 1] are said to have skipped"])

    def test_several_that_did_not_skip(self) -> None:
        """Ranks to which the same happened are told in one list; the cause is among them."""
        drawn = replace(FAILS, fault="sigkill", strikers=(1, 2, 3), world_size=5, peers="skip")
        wanted = expected(drawn)
        text = "cause: divergent skip: ranks 0, 4 skipped (why), ranks 1-3 did not ({} crashed: SIGKILL)"
        for told, wrong in (("ranks 1-3", []), ("ranks 0, 2", []), ("ranks 0, 4", ["no cause is named"])):
            with self.subTest(told):
                came = replace(self.RIGHT, verdict="error", text=text.format(told))
                self.assertEqual(objections(drawn, wanted, came), wrong)


if __name__ == "__main__":
    unittest.main()
