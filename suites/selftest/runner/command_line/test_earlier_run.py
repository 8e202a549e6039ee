"""Tests which earlier run a command goes on with or repeats, and what it takes over; nothing is run."""

from __future__ import annotations

import json
import os
import unittest
from collections.abc import Mapping
from pathlib import Path

from harness.errors import UsageError
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo
from harness.runner import journal
from harness.runner.command_line.invocation import Invocation, resolve
from harness.runner.command_line.options import parse
from harness.runner.journal import Journal
from harness.settings import EnvVar, Settings
from suites.selftest.runner import runs


class AfterAnotherTest(unittest.TestCase):
    """What a run takes over from the one before it."""

    def setUp(self) -> None:
        """Makes a state directory and restores the working directory afterwards."""
        self.directory = runs.new_directory(self)
        self.addCleanup(os.chdir, Path.cwd())

    def leave(
        self,
        *argv: str,
        shard: tuple[int, int] | None = None,
        selection: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Leaves the journal of a run in which one test failed and one was not reached."""
        run = self.resolve(*argv, **(environ or {}))
        tests = ("m.T.test_1", "m.T.test_2")
        info = RunInfo(
            argv=argv,
            cwd=str(self.directory),
            tests=tests,
            selection=selection,
            options=run.given,
            environ=run.deciding,
            shard=shard or run.cut,
        )
        directory = self.directory / "run"
        directory.mkdir(exist_ok=True)
        with journal.create(directory) as made:
            made.begin(info)
            made.add(TestRecord("m.T.test_1", Status.FAILED))
        run.state.remember(directory)

    def resolve(self, *argv: str, **environ: str) -> Invocation:
        return resolve(parse(argv), argv, {EnvVar.STATE_DIR: str(self.directory), **environ})

    def test_conditions(self) -> None:
        """Conditions of the last run hold for --last-failed and --resume, whatever set them."""
        table: tuple[tuple[list[str], dict[str, str], Settings, bool], ...] = (
            (["x.py", "--drop-in"], {}, Settings(), True),
            (["x.py", "--slow"], {}, Settings(slow=True), False),
            (["x.py"], {"PYTORCH_TEST_WITH_SLOW": "1"}, Settings(slow=True), False),
            (["x.py", "--ranks=threads", "--strict"], {}, Settings(ranks="threads", strict=True), False),
            (["x.py"], {"HARNESS_RANKS": "threads"}, Settings(ranks="threads"), False),
            (["x.py", "--examples", "9", "--seed=3"], {}, Settings(examples=9, seed=3), False),
            (["x.py", "--timeout", "7"], {"HARNESS_GRACE": "2"}, Settings(timeout_s=7, grace_s=2), False),
        )
        for argv, environ, settings, drop_in in table:
            for option in ("--last-failed", "--resume"):
                with self.subTest(argv=argv, environ=environ, option=option):
                    self.leave(*argv, environ=environ)
                    self.leave("--last-failed")
                    run = self.resolve(option)
                    self.assertEqual((run.settings, run.options.drop_in), (settings, drop_in))
                    self.assertEqual(run.options.names, ["x.py"])

    def test_given_now(self) -> None:
        """What is given now overrides the last run, and an empty variable takes a condition back."""
        environ = {"HARNESS_STRICT": "1", "HARNESS_RANKS": "threads"}
        self.leave("x.py", "--timeout", "7", "--seed=3", environ=environ)
        for option in ("--last-failed", "--resume"):
            with self.subTest(option=option):
                run = self.resolve(option, "--timeout", "9", HARNESS_STRICT="", HARNESS_RANKS="fresh")
                self.assertEqual(run.settings, Settings(timeout_s=9, seed=3, ranks="fresh"))
        self.assertEqual(self.resolve("--last-failed", "y.py").options.names, ["y.py"])

    def test_what_is_left_behind(self) -> None:
        """--last-failed does not take over the report directory and the repeats, and --resume does."""
        self.leave("x.py", "--report-dir", "d", "--repeat", "3", "--isolate")
        again, resumed = self.resolve("--last-failed"), self.resolve("--resume")
        self.assertEqual((again.options.report_dir, again.policy.repeats), (None, 1))
        self.assertEqual((resumed.options.report_dir, resumed.policy.repeats), ("d", 3))
        self.assertTrue(again.options.isolate and resumed.options.isolate)
        self.assertEqual((again.ids, resumed.ids), (("m.T.test_1",), ("m.T.test_1", "m.T.test_2")))

    def test_where_it_began(self) -> None:
        """A command with --report-dir goes on there by --resume, or where Slurm has started the job again.

        Slurm's count alone goes on with nothing that ended, or that another command or shard began.
        """
        place = ("--report-dir", str(self.directory / "run"))
        again = {"SLURM_RESTART_COUNT": "1"}
        shard = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_MIN": "0"}
        other = {**shard, "SLURM_ARRAY_TASK_ID": "0"}
        for name, words, variables, ended, goes_on in (
            ("plain", ("x.py",), {}, None, False),
            ("asked", ("x.py", "--resume"), {}, None, True),
            ("asked, ended", ("x.py", "--resume"), {}, 1, True),
            ("first start", ("x.py",), {"SLURM_RESTART_COUNT": "0"}, None, False),
            ("requeued, killed", ("x.py",), again, None, True),
            ("requeued, interrupted", ("x.py",), again, 130, True),
            ("requeued, harness failed", ("x.py",), again, 3, True),
            ("requeued, ended", ("x.py",), again, 0, False),
            ("requeued, failed", ("x.py",), again, 1, False),
            ("requeued, other command", ("y.py",), again, None, False),
            ("requeued, other shard", ("x.py",), {**again, **other}, None, False),
            ("requeued, same shard", ("x.py",), {**again, **shard}, None, True),
        ):
            with self.subTest(name):
                cut = (2, 2) if variables.keys() >= shard.keys() else None
                self.leave("x.py", *place, shard=cut)
                if ended is not None:
                    with Journal(self.directory / "run" / journal.NAME) as made:
                        made.end(ended, 1.0)
                run = self.resolve(*words, *place, **variables)
                self.assertEqual(run.earlier is not None, goes_on)
                self.assertEqual(run.ids, ("m.T.test_1", "m.T.test_2") if goes_on else None)
                self.assertEqual((run.cut, run.options.names), (cut if goes_on else None, [words[0]]))

    def test_resume_where_nothing_or_another_run_began(self) -> None:
        """--resume with --report-dir begins where there is no run, and refuses another command's."""
        for content in (None, "", '{"schema":1,"kind":"r'):
            directory = runs.new_directory(self)
            if content is not None:
                (directory / journal.NAME).write_text(content)
            with self.subTest(content=content):
                self.assertIsNone(self.resolve("x.py", "--resume", "--report-dir", str(directory)).earlier)
        self.leave("x.py", "--report-dir", "run")
        for words, variables in (
            (("y.py",), {}),
            (("x.py",), {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "2"}),
        ):
            with (
                self.subTest(words),
                self.assertRaisesRegex(UsageError, "holds another run: .*x.py --report-dir run"),
            ):
                self.resolve(*words, "--resume", "--report-dir", str(self.directory / "run"), **variables)

    def test_selection(self) -> None:
        """What goes on with a run, or runs its failures again, knows of which tests it is a part."""
        self.leave("x.py")
        self.assertEqual(self.resolve("--last-failed").selection, ("m.T.test_1", "m.T.test_2"))
        self.leave("x.py", shard=(1, 2), selection=("m.T.test_1", "m.T.test_2", "m.T.test_3"))
        for option in ("--last-failed", "--resume"):
            with self.subTest(option):
                run = self.resolve(option)
                self.assertEqual((run.cut, len(run.selection)), ((1, 2), 3))

    def test_journal_with_impossible_options(self) -> None:
        """An option that no command line gives is refused by its name, and every other one is taken."""
        more = ("--shuffle", "-k", "a", "--jobs=auto", "--timeout=1.5", "-vv", "--report=html")
        self.leave("x.py", "--reruns=2", "--slow", "--ranks=threads", *more)
        self.resolve("--resume")
        path = self.directory / "run" / journal.NAME
        header, rest = path.read_bytes().split(b"\n", 1)
        value = json.loads(header)
        impossible: dict[str, object] = {
            "names": 3,
            "keywords": [3],
            "reruns": -1,
            "flaky": "x",
            "slow": 1,
            "ranks": "x",
            "timeout": "x",
            "verbose": None,
            "shuffle": True,
            "seed": 1.5,
        }
        for name, wrong in impossible.items():
            changed = {**value, "options": {**value["options"], name: wrong}}
            path.write_bytes(json.dumps(changed).encode() + b"\n" + rest)
            with self.subTest(name=name), self.assertRaisesRegex(UsageError, f"no possible {name}"):
                self.resolve("--resume")

    def test_journal_without_a_working_directory(self) -> None:
        """A name that no directory has is refused in one line."""
        self.leave("x.py")
        path = self.directory / "run" / journal.NAME
        value = json.loads(path.read_bytes().split(b"\n")[0])
        for cwd in ("nul \0", "surrogate \ud800", "/no/such/directory"):
            path.write_text(json.dumps({**value, "cwd": cwd}))
            with self.subTest(cwd=cwd), self.assertRaisesRegex(UsageError, "working directory"):
                self.resolve("--resume")

    def test_shard(self) -> None:
        """The failures of a shard are repeated whole, also in the next run, and --shard is refused."""
        self.leave("x.py", shard=(1, 2))
        for _ in range(2):
            self.assertEqual(self.resolve("--last-failed").cut, (1, 2))
            with self.assertRaisesRegex(UsageError, "was shard 1/2 already: leave out --shard"):
                self.resolve("--last-failed", "--shard=1/2")
            self.leave("--last-failed")


if __name__ == "__main__":
    unittest.main()
