"""Tests whether a run's target is found out to be impossible before anything is imported for it."""

from __future__ import annotations

import os
import sys
import types
import unittest
from typing import Any
from unittest import mock

from harness.runner import target_check
from harness.runner.messages import Ready
from harness.targets import Known, Target

NONE = {"HARNESS_BACKEND": "", "HARNESS_DEVICE": "", "HARNESS_PLUGIN": "", "BACKEND": ""}


def without_torch() -> Any:
    """Has torch, which the tests of the runner do not import, agree to the target."""
    # By the module itself: Python 3.10 resolves a path by attributes, and the package has a function current.
    return mock.patch.object(sys.modules["harness.targets.current"], "_check_torch")


class ProblemTest(unittest.TestCase):
    """``problem``; whole runs are in ``suites/selftest/targets/test_current.py``."""

    def check(self, environ: dict[str, str], *, clean: bool = True) -> str:
        """Returns what it says in a process that can be forked, or cannot, after the plugin's import."""
        with (
            mock.patch.dict(os.environ, {**NONE, **environ}),
            mock.patch.object(target_check, "hindrance", lambda: "" if clean else "has started threads"),
            without_torch(),
        ):
            return target_check.problem(os.environ)

    def test_problems(self) -> None:
        """Nothing is wrong without a plug, whatever the process is like."""
        self.assertEqual(self.check({}, clean=False), "")
        self.assertEqual(self.check({"HARNESS_BACKEND": "gloo"}), "")
        self.assertIn("nonesuch is unknown", self.check({"HARNESS_BACKEND": "nonesuch"}))
        self.assertIn(
            "the import of the plugin json has started threads: do that",
            self.check({"HARNESS_PLUGIN": "json"}, clean=False),
        )

    def test_known(self) -> None:
        """A table of known failures that has anything else in it is a problem; a right one is told."""
        plugin = types.ModuleType("mine_known")
        vars(plugin)["KNOWN"] = (Known("c10d.*", "no bool"), Known("aot.*", "old", before="1.0"))
        # Not by mock.patch.dict, which would drop what is imported meanwhile.
        sys.modules["mine_known"] = plugin
        self.addCleanup(sys.modules.pop, "mine_known")
        environ = {"HARNESS_PLUGIN": "mine_known"}
        self.assertEqual(self.check(environ), "")
        with mock.patch.dict(os.environ, {**NONE, **environ}), without_torch():
            ready = target_check.ready(os.environ)
        self.assertEqual(ready, Ready("gloo", [{"tests": "c10d.*", "why": "no bool"}]))
        vars(plugin)["KNOWN"] = ("c10d.*",)
        self.assertIn("write Known(...)", self.check(environ))
        self.assertEqual(target_check.ready(NONE), Ready())

    def test_accelerators(self) -> None:
        """The devices of a target that has any are told by name, with the variable that shows them."""
        target = Target("mine", "xpu", {}, device_count=lambda: 2)
        with (
            mock.patch.dict(os.environ, {**NONE, "HARNESS_DEVICE": "xpu", "ZE_AFFINITY_MASK": "4,5"}),
            mock.patch.object(target_check, "current", lambda: target),
        ):
            self.assertEqual(
                target_check.ready(os.environ), Ready("mine on xpu", [], ["4", "5"], "ZE_AFFINITY_MASK")
            )


if __name__ == "__main__":
    unittest.main()
