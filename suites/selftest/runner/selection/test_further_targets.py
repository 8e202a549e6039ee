"""Tests which targets a run tests after its own, on which tests, and what its exit code then is."""

from __future__ import annotations

import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

from harness.errors import UsageError
from harness.runner.command_line import invocation, options
from harness.runner.command_line.invocation import Invocation
from harness.runner.exit_codes import ExitCode
from harness.runner.scheduling.unit import Demand, of_id
from harness.runner.selection import further_targets
from harness.runner.selection.further_targets import NCCL, chosen, left_out, on, run_each, together
from suites.selftest.runner import runs


class ChosenTest(unittest.TestCase):
    """The plugins that ``chosen`` returns."""

    def test_table(self) -> None:
        """GPUs are taken by the suites of themselves; other runs take what they ask for, or nothing."""
        table: tuple[tuple[list[str], bool, bool, bool, tuple[str, ...]], ...] = (
            ([], True, True, True, (NCCL,)),
            ([], True, True, False, ()),
            ([], True, False, True, ()),
            ([], False, True, True, ()),
            (["mine", "other", "mine"], True, False, False, ("mine", "other")),
            (["mine"], True, True, True, ("mine",)),
            (["mine"], False, True, True, ()),
        )
        for asked, plain, of_suites, gpu, found in table:
            with self.subTest(asked=asked, plain=plain, of_suites=of_suites, gpu=gpu):
                self.assertEqual(chosen(asked, plain=plain, of_suites=of_suites, gpu=gpu), found)


class OfRunTest(unittest.TestCase):
    """What ``of_run`` finds on a machine whose GPUs are doubles."""

    def found(self, *argv: str, module: str = "suites.c10d.test_x", **environ: str) -> tuple[str, ...]:
        """The plugins for such a command line, by which tests of a module have run."""
        here = {"HARNESS_STATE_DIR": str(runs.new_directory(self)), **environ}
        words = ("--no-config", *argv)
        began = invocation.resolve(options.parse(words), words, here)
        with mock.patch.object(further_targets, "has_gpu", lambda: True):
            return further_targets.of_run(began, ["test_mine", module])

    def test_table(self) -> None:
        """A run that says what it tests, or that only lists, tests nothing else."""
        self.assertEqual(self.found(), (NCCL,))
        self.assertEqual(self.found("c10d"), (NCCL,))
        self.assertEqual(self.found(module="test_other"), ())
        self.assertEqual(self.found(module="suites.selftest.test_x"), ())
        for more in (["--list"], ["--device", "cpu"], ["--plugin", "mine"], ["--drop-in"], ["--hosts", "2"]):
            with self.subTest(more=more):
                self.assertEqual(self.found(*more), ())
        self.assertEqual(self.found(HARNESS_BACKEND="gloo"), ())
        self.assertEqual(self.found("--also", "mine", module="test_other"), ("mine",))


class RunEachTest(unittest.TestCase):
    """``run_each``, with doubles of runs."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)
        self.shown: list[str] = []

    def of(self, *argv: str) -> Invocation:
        """The invocation of such a command line."""
        words = ("--no-config", *argv)
        return invocation.resolve(options.parse(words), words, {"HARNESS_STATE_DIR": str(self.directory)})

    def run_all(self, began: Invocation, ends: dict[str | None, int | UsageError]) -> tuple[int, list[str]]:
        """The exit code, and the plugins on which a run began; each remembers a directory of its name."""
        plugins: list[str] = []

        def run(each: Invocation, modules: set[str]) -> int:
            plugin = each.settings.plugin
            plugins.append(str(plugin))
            end = ends[plugin]
            if isinstance(end, UsageError):
                raise end
            own = self.directory / str(plugin)
            own.mkdir()
            each.state.remember(own)
            return end

        return run_each(began, run, self.shown.append), plugins

    def test_all(self) -> None:
        """One after the other; the code is that of the worst."""
        began = self.of("--also", "one", "--also", "two")
        code, plugins = self.run_all(began, {None: 0, "one": 1, "two": 0})
        self.assertEqual((code, plugins), (ExitCode.FAILED, ["None", "one", "two"]))
        # What --last-failed is to run.
        self.assertEqual(began.state.latest(), self.directory / "one")

    def test_ends(self) -> None:
        """Nothing begins after an interrupt, or after a failure where one is to end the run."""
        also = ("--also", "one")
        table = ((also, 130, ["None"]), (also, 1, ["None", "one"]), ((*also, "--failfast"), 1, ["None"]))
        for argv, code, plugins in table:
            with self.subTest(argv=argv, code=code):
                self.directory = runs.new_directory(self)
                self.assertEqual(self.run_all(self.of(*argv), {None: code, "one": 0}), (code, plugins))

    def test_not_possible(self) -> None:
        """A target that the user names must be possible; this machine's own is left out with a line."""
        no = UsageError("this torch is built without NCCL")
        with self.assertRaises(UsageError):
            self.run_all(self.of("--also", "one"), {None: 0, "one": no})
        self.directory = runs.new_directory(self)
        with mock.patch.object(further_targets, "of_run", lambda began, modules: (NCCL,)):
            code, _ = self.run_all(self.of(), {None: 0, NCCL: no})
        self.assertEqual(code, ExitCode.OK)
        self.assertIn("left out: this torch is built without NCCL", self.shown)

    def test_a_run_of_its_own(self) -> None:
        """Such a run has reports of its own, is asked for by its plugin, and has tests of devices only."""
        began = on(self.of("--also", "a.mine", "--report-dir", "there", "-k", "x"), "a.mine")
        self.assertEqual(began.options.report_dir, str(Path("there", "mine")))
        self.assertTrue(began.on_devices)
        self.assertEqual(began.test_environ["HARNESS_PLUGIN"], "a.mine")
        self.assertIn("--plugin a.mine", began.command)
        self.assertEqual((began.given["plugin"], began.given["keywords"]), ("a.mine", ["x"]))
        self.assertEqual(further_targets.of_run(began, ["suites.c10d.test_x"]), ())

    def test_codes(self) -> None:
        """What matters most to a script: an interrupt, a broken run, a failure; a run of nothing is none."""
        for codes, found in (([0, 5], 0), ([5], 5), ([5, 1], 1), ([1, 3], 3), ([0, 130, 3], 130)):
            self.assertEqual(together(codes), found)


class LeftOutTest(unittest.TestCase):
    """The lines that ``left_out`` makes."""

    def test_names(self) -> None:
        """Tests with more ranks than devices are told by class, with the number that they need."""
        unit = of_id("suites.c10d.test_x.T.test_a", "suites.c10d.test_x", demand=Demand(4, accelerators=4))
        units = [unit, replace(unit, id="suites.c10d.test_x.T.test_b"), replace(unit, demand=Demand(2))]
        (line,) = left_out(units, 2, "nccl on cuda")
        self.assertEqual(
            line,
            "left out: 2 tests on 4 ranks, each on an accelerator, since nccl on cuda has room for 2: "
            "c10d.test_x.T (2)",
        )
        self.assertEqual(left_out(units, 4, "nccl on cuda"), [])
        self.assertEqual(left_out(units, None, "gloo"), [])


if __name__ == "__main__":
    unittest.main()
