"""Tests which upstream classes get the harness's ranks, on played modules and on the installed torch."""

from __future__ import annotations

import os
import types
import unittest
import unittest.mock
from typing import Any

from harness.dropin import classes, install
from harness.dropin.ranks import UpstreamContinuousRanks, UpstreamRanks
from harness.settings import EnvVar


class Ranks:
    """A base class to be grafted."""

    def run_test(self) -> str:
        return "ours"


def _module(**names: Any) -> Any:
    class Below:
        pass

    class Case(Below):
        def run_test(self) -> str:
            return "theirs"

        def kept(self) -> str:
            return "theirs"

    module = types.SimpleNamespace(TEST_SKIPS={}, get_timeout=len, TestCase=Below, Case=Case)
    for name, value in names.items():
        setattr(module, name, value)
    return module


GRAFT = classes.ClassChange("Case", Ranks, lost=("run_test",), needed=("kept",))


class Grafts(unittest.TestCase):
    """``apply``, which puts a base of the harness under an upstream class."""

    def test_subclasses_follow_and_the_class_stays_itself(self) -> None:
        module = _module()
        before = module.Case
        subclass = type("Sub", (before,), {})
        self.assertIsNone(classes.apply(GRAFT, module))
        self.assertIs(module.Case, before)
        self.assertEqual((subclass().run_test(), subclass().kept()), ("ours", "theirs"))
        self.assertTrue(issubclass(subclass, module.TestCase))

    def test_twice_is_once(self) -> None:
        module = _module()
        self.assertIsNone(classes.apply(GRAFT, module))
        bases = module.Case.__bases__
        self.assertIsNone(classes.apply(GRAFT, module))
        self.assertEqual(module.Case.__bases__, bases)

    def test_a_missing_name_is_said_and_the_class_left_alone(self) -> None:
        for graft, named in (
            (classes.ClassChange("Case", Ranks, lost=("run_test", "gone")), "Case.gone"),
            (classes.ClassChange("Case", Ranks, lost=("run_test",), needed=("other",)), "Case.other"),
            (classes.ClassChange("Elsewhere", Ranks, lost=()), "Elsewhere"),
        ):
            with self.subTest(named=named):
                module = _module()
                line = classes.apply(graft, module)
                assert line is not None
                self.assertIn(f"this torch has no {named}: {graft.name} stays upstream's", line)
                self.assertNotIn("\n", line)
                self.assertEqual(module.Case().run_test(), "theirs")

    def test_a_missing_function_is_said(self) -> None:
        module = _module()
        del module.get_timeout
        self.assertIn("this torch has no get_timeout", classes.apply(GRAFT, module) or "")


class ThisTorch(unittest.TestCase):
    """``install``, on the installed torch."""

    def setUp(self) -> None:
        # Ranks that other tests start in this process must not see the variable.
        environment = unittest.mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)

    def test_every_class_is_served_however_often(self) -> None:
        self.assertEqual(install(), ())
        self.assertEqual(install(), ())
        self.assertEqual(os.environ[EnvVar.DROP_IN], "1")
        from torch.testing._internal import common_distributed as upstream

        self.assertTrue(issubclass(upstream.MultiProcessTestCase, UpstreamRanks))
        self.assertTrue(issubclass(upstream.DistributedTestBase, UpstreamRanks))
        self.assertTrue(issubclass(upstream.MultiProcContinuousTest, UpstreamContinuousRanks))
        self.assertTrue(issubclass(upstream.MultiProcessTestCase, upstream.TestCase))

    def test_upstreams_way_is_kept_for_classes_that_start_processes_themselves(self) -> None:
        install()
        from torch.testing._internal import common_distributed as upstream

        theirs = UpstreamRanks.upstream_way
        self.assertIs(theirs["_start_processes"], upstream.MultiProcessTestCase._start_processes)
        self.assertEqual(theirs["_join_processes"].__module__, upstream.__name__)


if __name__ == "__main__":
    unittest.main()
