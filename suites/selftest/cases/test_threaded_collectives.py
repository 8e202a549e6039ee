"""Tests one body on threads, with torch's threaded group and with gloo, and on processes."""

from __future__ import annotations

import os
import unittest
from typing import Any
from unittest import mock

from harness import Status
from harness.compiler_state import reset_compiler
from suites.selftest.faults import threaded_collectives
from suites.selftest.faults.rows import IMPATIENT, PATIENT, FaultRows, read_verdict


class SameBodiesTest(FaultRows):
    """One body on threads, with torch's threaded group and with gloo, and on processes."""

    def test_collectives(self) -> None:
        """Collectives give the same, known results in each mode."""
        for method in ("test_sums", "test_gathers", "test_moves"):
            for case, ranks in (
                (threaded_collectives.CollectivesOnThreads, ""),
                (threaded_collectives.OnGloo, "threads"),
                (threaded_collectives.OnGloo, "fresh"),
            ):
                with self.subTest(method=method, case=case.__name__, ranks=ranks):
                    self.passes(case, method, HARNESS_RANKS=ranks)

    def test_refused_call(self) -> None:
        """A refused call uses up no collective's number, and peers in another collective are no mismatch."""
        played = self.play(threaded_collectives.CollectivesOnThreads, "test_refused_call")
        self.assertEqual(played.verdict, "pass", played.text)
        for rank in (0, 1, 2):
            noted = [str(c) for c in played.rank(rank).calls]
            self.assertEqual(noted[1:], [f"broadcast #{n} of the default group" for n in (1, 2, 3)])

    def test_fails_with_peers_in_gloo(self) -> None:
        """Peers in gloo's barrier are woken after the grace by connections that close."""
        played = self.play(threaded_collectives.OnGloo, "test_fails", HARNESS_RANKS="threads", **IMPATIENT)
        self.check(played, "FAIL", Status.FAILED, "rank 1 will not play", collateral=(0, 2))
        self.assertNotIn("abandoned", played.text)

    def test_announced_exit(self) -> None:
        """special_return_code_checks works as for processes."""
        for code, verdict in ((7, "pass"), (8, "ERROR")):
            case = threaded_collectives.OnGloo("test_exits_as_announced")
            fn = case.test_exits_as_announced.__wrapped__  # type: ignore[attr-defined]  # functools.wraps
            result = unittest.TestResult()
            with (
                mock.patch.dict(os.environ, {"HARNESS_RANKS": "threads"}),
                mock.patch.object(case, "setUp", _announcing(case, fn, code)),
            ):
                case.run(result)
            self.assertEqual(read_verdict(result)[0], verdict, result.errors)

    def test_own_class(self) -> None:
        """A rank's class is its own, under the same name."""
        self.passes(threaded_collectives.OnGloo, "test_own_class", HARNESS_RANKS="threads")


class CompiledTest(unittest.TestCase):
    """Dynamo traces the collective and its wait, and nothing of the harness around them.

    This class does not check for leftovers, because the compiler keeps groups and a thread.
    """

    def setUp(self) -> None:
        self.addCleanup(reset_compiler)

    def test_compiled_collectives(self) -> None:
        """Compiled collectives work on torch's threaded group and on gloo."""
        for method in ("test_one_graph", "test_between_graphs"):
            for case in (threaded_collectives.CollectivesOnThreads, threaded_collectives.OnGloo):
                environ = {"HARNESS_RANKS": "threads", "HARNESS_TIMEOUT": PATIENT["HARNESS_TIMEOUT"]}
                with self.subTest(method=method, case=case.__name__), mock.patch.dict(os.environ, environ):
                    result = unittest.TestResult()
                    case(method).run(result)
                    verdict, texts = read_verdict(result)
                    self.assertEqual(verdict, "pass", texts)


def _announcing(case: Any, fn: Any, code: int) -> Any:
    real = case.setUp

    def set_up() -> None:
        real()
        case.special_return_code_checks = {fn: code}

    return set_up


if __name__ == "__main__":
    unittest.main()
