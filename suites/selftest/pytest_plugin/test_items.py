"""Tests what the plugin takes collected items for, in one run of pytest that collects all kinds."""

from __future__ import annotations

import json
import unittest

from suites.selftest.pytest_plugin.runs import PytestCase


class ItemsTest(PytestCase):
    """``harness.pytest_plugin.items`` on real items."""

    def test_table(self) -> None:
        """Id, base, ranks, demand and skips of functions, methods, test cases and tests on ranks."""
        self.write(
            "conftest.py",
            """
            import json
            from harness.pytest_plugin import items as kinds

            def pytest_collection_finish(session):
                found = {}
                for item in session.items:
                    demand = kinds.demand_of(item)
                    found[item.nodeid.partition("::")[2]] = [
                        kinds.test_id(item), kinds.of_harness(item), kinds.rank_modes(item) != (),
                        kinds.skipped_by_mark(item), demand and [demand.ranks, demand.exclusive]]
                print("ITEMS", json.dumps(found))
            """,
        )
        self.write(
            "test_it.py",
            """
            from harness import TestCase, exclusive

            @pytest.mark.parametrize("x", ["a.b"])
            def test_function(x): pass

            @pytest.mark.skipif("no_such_name")
            def test_broken_mark(): pass

            class TestPlain:
                class TestInner:
                    def test_method(self): pass

            class Theirs(unittest.TestCase):
                @pytest.mark.skipif(False, reason="x")
                def test_1(self): pass

            class Ours(TestCase):
                @pytest.mark.xfail
                def test_1(self): pass

                @exclusive
                def test_alone(self): pass

            class Ranks(MultiProcessTestCase):
                world_size = 6

                def test_1(self): pass

                @pytest.mark.xfail(run=False)
                def test_2(self): pass

                @unittest.skip("x")
                def test_3(self): pass
            """,
        )
        run = self.pytest("--collect-only", "-s")
        found = json.loads(run.out.partition("ITEMS ")[2].splitlines()[0])
        for name, expected in {
            "test_function[a.b]": ["test_it.test_function[a.b]", False, False, False, None],
            "test_broken_mark": ["test_it.test_broken_mark", False, False, True, None],
            "TestPlain::TestInner::test_method": [
                "test_it.TestPlain.TestInner.test_method", False, False, False, None,
            ],
            "Theirs::test_1": ["test_it.Theirs.test_1", False, False, False, None],
            "Ours::test_1": ["test_it.Ours.test_1", True, False, False, None],
            "Ours::test_alone": ["test_it.Ours.test_alone", True, False, False, [1, True]],
            "Ranks::test_1": ["test_it.Ranks.test_1", True, True, False, [6, False]],
            "Ranks::test_2": ["test_it.Ranks.test_2", True, True, True, [6, False]],
            "Ranks::test_3": ["test_it.Ranks.test_3", True, True, True, [6, False]],
        }.items():  # fmt: skip
            with self.subTest(name):
                self.assertEqual(found.pop(name), expected)
        self.assertEqual(found, {})


if __name__ == "__main__":
    unittest.main()
