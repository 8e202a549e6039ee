"""Tests the plugin's options: their variables, wrong values, and that workers and conftest files see them."""

from __future__ import annotations

import argparse
import unittest
from types import SimpleNamespace

from harness.errors import UsageError
from harness.pytest_plugin import options
from harness.settings import EnvVar
from suites.selftest.pytest_plugin.runs import PytestCase


class _Group:
    """Options as pytest collects them, over argparse."""

    def __init__(self, *taken: str) -> None:
        self.parser = argparse.ArgumentParser(allow_abbrev=False)
        for name in taken:
            self.parser.add_argument(name)

    def addoption(self, *names: str, **attributes: object) -> None:
        """Adds an option."""
        self.parser.add_argument(*names, **attributes)  # type: ignore[arg-type]  # as given


class DecisionsTest(unittest.TestCase):
    """The options as values."""

    def test_variables(self) -> None:
        """Each option that is given sets its variable; the others set none."""
        group = _Group()
        options.register(group, shared=False)
        options.register(group, shared=True)
        for argv, expected in (
            ([], {}),
            (["--drop-in"], {EnvVar.DROP_IN: "1"}),
            (["--ranks", "pooled"], {EnvVar.RANKS: "pooled"}),
            (["--rank-timeout=3.5"], {EnvVar.TIMEOUT: "3.5"}),
            (["--rank-strict", "--harness-seed", "7"], {EnvVar.STRICT: "1", EnvVar.SEED: "7"}),
            (["--pdb-rank", "0"], {EnvVar.PDB_RANK: "0"}),
            (["--shard", "1/2", "--shard-timings", "x"], {}),
        ):
            with self.subTest(argv):
                given = options.given(group.parser.parse_args(argv))
                self.assertEqual(options.variables(given), expected)

    def test_wrong_values(self) -> None:
        """The error is one line that names the option and says what to write."""
        for name, value, said in (
            ("--ranks", "many", "write one of fresh, pooled, threads, local"),
            ("--rank-timeout", "soon", "write a number of seconds"),
            ("--rank-timeout", " ", "write SECONDS"),
            ("--rank-launcher", "x", "write one of"),
            ("--pdb-rank", "-1", "write a whole number"),
            ("--harness-examples", "0", "write a whole number, 1 or more"),
            ("--communication-check", "maybe", "write one of off, warn"),
        ):
            with self.subTest(name, value=value), self.assertRaises(UsageError) as raised:
                options.variables({name: value})
            self.assertTrue(str(raised.exception).startswith(f"{name} {value!r}: {said}"), raised.exception)

    def test_taken_names(self) -> None:
        """A shared name that is taken is left alone; a name of the plugin's own must be free."""
        options.register(_Group("--shard"), shared=True)
        with self.assertRaises(argparse.ArgumentError):
            options.register(_Group("--rank-timeout"), shared=False)

    def test_given_without_the_plugins_options(self) -> None:
        """A namespace that lacks them gives none."""
        self.assertEqual(options.given(SimpleNamespace()), {})


class RunsTest(PytestCase):
    """The options in runs of pytest."""

    def test_usage_errors(self) -> None:
        """A wrong value or variable ends pytest with exit code 4 and one line, also under pytest-xdist."""
        self.write("test_it.py", "class T(MultiProcessTestCase):\n    def test_1(self): pass\n")
        for arguments, variables, said in (
            (["--ranks", "many"], {}, "--ranks 'many': write one of"),
            (["--rank-timeout", "soon"], {}, "--rank-timeout 'soon': write a number"),
            (["--pdb-rank", "1", "-n1"], {}, "--pdb-rank needs the terminal"),
            ([], {"HARNESS_TIMEOUT": "soon"}, "HARNESS_TIMEOUT='soon'"),
            (["-n1"], {"HARNESS_TIMEOUT": "soon"}, "HARNESS_TIMEOUT='soon'"),
        ):
            with self.subTest(arguments, **variables):
                run = self.pytest(*arguments, **variables)
                self.assertEqual(run.code, 4, run.out)
                (line,) = [line for line in run.out.splitlines() if said in line]
                self.assertTrue(line.startswith("ERROR: "), run.out)

    def test_seen(self) -> None:
        """conftest files, tests and ranks see the options, in workers too; drop-in comes before conftest."""
        self.write(
            "conftest.py",
            """
            import os
            from torch.testing._internal import common_distributed
            SEEN = {name: os.environ.get(name) for name in ("HARNESS_TIMEOUT", "HARNESS_DROP_IN")}
            BASES = common_distributed.MultiProcessTestCase.__mro__
            HAS_RANKS = any("harness" in base.__module__ for base in BASES)
            """,
        )
        self.write(
            "test_it.py",
            """
            from conftest import HAS_RANKS, SEEN
            from torch.testing._internal.common_distributed import MultiProcessTestCase as Upstream

            def test_conftest():
                assert HAS_RANKS and SEEN == {"HARNESS_TIMEOUT": "77", "HARNESS_DROP_IN": "1"}

            class T(Upstream):
                world_size = 2

                def setUp(self):
                    super().setUp()
                    self._spawn_processes()

                def test_rank(self):
                    self.assertEqual(os.environ["HARNESS_TIMEOUT"], "77")
                    self.assertEqual(os.environ["HARNESS_RANKS"], "fresh")
                    assert "harness.ranks.processes.rank" in sys.modules
            """,
        )
        run = self.pytest("--drop-in", "--rank-timeout=77", "--ranks", "fresh", "-n1")
        self.assertEqual(run.counts, {"passed": 2}, run.out)


if __name__ == "__main__":
    unittest.main()
