"""Tests what is kept of the warnings that tests give, and that runs show them."""

from __future__ import annotations

import io
import unittest
import warnings
from contextlib import redirect_stderr

from harness.errors import RankLeakWarning
from harness.system.python_warnings import LINE_MAX, MOST, collected, line_of, with_warning
from suites.selftest.runner.runs import RunnerCase


class LineTest(unittest.TestCase):
    """Warnings as lines."""

    def test_line(self) -> None:
        """Files of the project are named from its directory, and only the first line of a text is shown."""
        table = {
            ("one\ntwo", UserWarning, "/home/me/tests/test_a.py"): "tests/test_a.py:3: UserWarning: one",
            ("", DeprecationWarning, "/home/mem/b.py"): "/home/mem/b.py:3: DeprecationWarning: ",
            ("x" * LINE_MAX, UserWarning, "a.py"): f"a.py:3: UserWarning: {'x' * (LINE_MAX - 25)} ...",
        }
        for (message, category, file), line in table.items():
            self.assertEqual(line_of(message, category, file, 3, "/home/me"), line)

    def test_each_once(self) -> None:
        """A record has each line once, and not more than can be read."""
        kept: tuple[str, ...] = ()
        for number in range(2 * MOST):
            kept = with_warning(with_warning(kept, f"{number}"), f"{number}")
        self.assertEqual(kept, tuple(f"{number}" for number in range(MOST)))

    def test_collected(self) -> None:
        """Each category is taken and written, but not those of which a record knows in another way."""
        lines: list[str] = []
        before = warnings.showwarning
        with redirect_stderr(io.StringIO()) as written, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with collected(lines.append):
                warnings.warn("old", DeprecationWarning, stacklevel=1)
                warnings.warn("left", RankLeakWarning, stacklevel=1)
            warnings.warn("afterwards", UserWarning, stacklevel=1)
        self.assertEqual([line.partition(": ")[2] for line in lines], ["DeprecationWarning: old"])
        self.assertIn("RankLeakWarning: left", written.getvalue())
        self.assertNotIn("afterwards", written.getvalue())
        self.assertIs(warnings.showwarning, before)


class RunTest(RunnerCase):
    """Warnings of tests in a run."""

    TESTS = """
        import warnings
        def old(): warnings.warn("old", DeprecationWarning, stacklevel=2)
        class T(unittest.TestCase):
            def test_1(self): old()
            def test_2(self): pass
        """

    def test_shown_at_the_end(self) -> None:
        """Those of a test that passed too, by unittest and by pytest; -q leaves them out."""
        self.write("test_u", self.TESTS)
        self.write("test_p", f"{self.TESTS}\n        def test_function(): old()\n")
        run = self.run_tests("test_u", "test_p")
        self.assertIn("-- warnings (3) ", run.out)
        for line in ("test_u.py:6", "test_p.py:6", "test_p.py:9"):
            self.assertIn(f"      1  {line}: DeprecationWarning: old\n", run.out)
        self.assertEqual(run.of("test_u.T.test_1").warnings, ("test_u.py:6: DeprecationWarning: old",))
        self.assertEqual(run.of("test_2").warnings, ())
        self.assertNotIn("DeprecationWarning", self.run_tests("test_u", "-q").out)

    def test_of_ranks(self) -> None:
        """Those of ranks are shown as well, once where all ranks give them, in each rank mode."""
        self.write("test_r", """
            import warnings
            from harness import MultiProcContinuousTest, MultiProcessTestCase, MultiThreadedTestCase
            class Body:
                world_size = 2
                def test_a_rank(self):
                    warnings.warn(f"rank {self.rank}", stacklevel=1)
                    self.assertEqual(self.rank, 0)
                def test_all(self): warnings.warn("all", stacklevel=1)
                def test_quiet(self): pass
            class Fresh(Body, MultiProcessTestCase):
                def setUp(self): super().setUp(); self._spawn_processes()
            class Pooled(Body, MultiProcContinuousTest): pass
            class Threads(Body, MultiThreadedTestCase):
                def setUp(self): super().setUp(); self._spawn_threads()
            """)  # fmt: skip
        # The one that fails is the first one on its ranks: no line says that earlier ones may be the cause.
        run = self.run_tests("test_r", "--jobs", "1")
        self.assertIn("-- warnings (3) ", run.out)
        for case in ("Fresh", "Pooled", "Threads"):
            with self.subTest(case):
                self.assertEqual(run.of(f"{case}.test_all").warnings, ("test_r.py:10: UserWarning: all",))
                self.assertEqual(run.of(f"{case}.test_quiet").warnings, ())
                told = [line.partition("UserWarning: ")[2] for line in run.of(f"{case}.test_a_rank").warnings]
                self.assertEqual(sorted(told), ["rank 0", "rank 1"])

    def test_streamed(self) -> None:
        """With -s they come as the test gives them."""
        self.write("test_u", self.TESTS)
        self.assertIn("test_u.py:6: DeprecationWarning: old\n", self.run_tests("test_u", "-s", "-q").err)

    def test_filters(self) -> None:
        """PYTHONWARNINGS decides, as it does for unittest."""
        self.write("test_u", self.TESTS)
        run = self.run_tests("test_u", PYTHONWARNINGS="error")
        self.assertIn("DeprecationWarning: old", run.of("test_1").reason)


if __name__ == "__main__":
    unittest.main()
