"""Tests tools/mutate.py on the small suite of ``planted``, whose arithmetic stands for torch."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner import journal
from tools import mutate, planted_run
from tools.mutation import forks, modules, page, results, sites
from tools.mutation.results import Verdict

ROOT = Path(__file__).resolve().parents[3]
FILE = "suites/selftest/tools/planted/arithmetic.py"
SUMS = "suites.selftest.tools.planted.sums"


class MutateTest(unittest.TestCase):
    """The whole tool; all tests share one map."""

    path: Path
    recorded: str

    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path = Path(directory.name)
        for name, value in (("MUTATED", (FILE,)), ("root", lambda: ROOT)):
            patch = mock.patch.object(modules, name, value)
            patch.start()
            cls.addClassCleanup(patch.stop)
        code, out, err = cls.call("--record", "--tests", f"{SUMS}.SingleTest", f"{SUMS}.FreshTest")
        assert (code, err) == (0, ""), err
        cls.recorded = out

    @classmethod
    def call(cls, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = mutate.main(["--map", str(cls.path / "map"), "--jobs=2", *arguments])
        return code, out.getvalue(), err.getvalue()

    def test_recorded(self) -> None:
        """Lines in the worker, in its children and in ranks; that of ``unused`` is executed by none."""
        self.assertEqual(self.recorded, "10 of 10 tests passed and execute 2 lines of 1 files\n")

    def test_left_out(self) -> None:
        """Tests that fail while lines are noted are named, with what went wrong; skipped ones are not."""
        records = [
            TestRecord("t.passes", Status.PASSED),
            TestRecord("t.skips", Status.SKIPPED, reason="no GPU"),
            TestRecord("t.fails", Status.ERROR, reason="OSError: disk full"),
        ]
        run = mock.patch.object(planted_run, "run", return_value=planted_run.Done(1, ""))
        read = mock.patch.object(journal, "read", return_value=mock.Mock(records=records))
        with run, read, tempfile.TemporaryDirectory() as name:
            code, out, err = self.call("--record", "--map", str(Path(name, "map")))
        said = ["1 of 3 tests passed and execute 0 lines of 0 files", "left out: t.fails: OSError: disk full"]
        self.assertEqual((code, out.splitlines(), err), (0, said, ""))

    def test_sample(self) -> None:
        """A sample of the file's mutants: what doubles wrongly is caught; the same run again tries none."""
        directory = self.path / "sample"
        arguments = ("--seed=48", "--sample=3", "--report-dir", str(directory))
        code, out, err = self.call(*arguments)
        self.assertEqual((code, err), (1, ""), out)  # too few are caught
        verdicts = {name.partition(":")[2]: r.verdict.value for name, r in results.read(directory).items()}
        self.assertEqual(
            verdicts,
            {
                "6.11-6.21:arithmetic:0": "caught",
                "6.11-6.12:constant:0": "caught",
                "11.19-11.20:constant:1": "survived",
            },
        )
        self.assertIn(
            "2 of 3 on executed lines caught (67 %, 95 % sure: 21-94 %), "
            "0 on lines that no test executes (67 % of all)",
            out,
        )
        self.assertIn("constant:1", (directory / page.NAME).read_text(encoding="utf-8"))
        with mock.patch.object(mutate, "_result", side_effect=AssertionError("tried again")):
            self.assertEqual(self.call(*arguments)[0], code)

    def test_fresh(self) -> None:
        """Runs of their own say the same of a mutant as forks do."""
        names = (f"{FILE}:6.11-6.12:constant:0", f"{FILE}:11.19-11.20:constant:1")
        verdicts = []
        for arguments in (("--fresh",), ()):
            directory = self.path / f"both{arguments}"
            self.call(*(f"--mutant={n}" for n in names), "--report-dir", str(directory), *arguments)
            self.assertEqual((directory / forks.NAME).exists(), not arguments)
            verdicts.append({name: r.verdict for name, r in results.read(directory).items()})
        self.assertEqual(verdicts[0], verdicts[1])
        self.assertEqual(verdicts[0], dict(zip(names, (Verdict.CAUGHT, Verdict.SURVIVED), strict=True)))

    def test_shards_are_disjoint_and_complete(self) -> None:
        arguments = ("--list", "--seed=5", "--sample=7")
        whole = self.call(*arguments)[1].splitlines()
        parts = [self.call(*arguments, f"--shard={i}/3")[1].splitlines() for i in (1, 2, 3)]
        self.assertEqual(sorted(name for part in parts for name in part), sorted(whole))
        self.assertEqual(len(whole), 7)
        self.assertEqual(self.call(*arguments)[1].splitlines(), whole)

    def test_each_part_of_the_source_has_its_share(self) -> None:
        """Of eight mutants in three pieces one each, in another order than the source's; or all of them."""
        every = self.call("--list", "--sample=100")[1].splitlines()
        self.assertEqual(len(set(every)), 8)
        places = {site.name: place for place, site in enumerate(sites.sites(FILE, (ROOT / FILE).read_text()))}
        samples = [self.call("--list", "--sample=3", f"--seed={s}")[1].splitlines() for s in range(20)]
        for sample in samples:
            self.assertEqual(sorted((places[name] > 1) + (places[name] > 4) for name in sample), [0, 1, 2])
        self.assertTrue(any(places[sample[0]] > places[sample[-1]] for sample in samples))

    def test_wrong_arguments(self) -> None:
        rows = {
            (
                "--mutant=a.py:1.1-1.1:constant:0",
            ): "a.py of mutant a.py:1.1-1.1:constant:0 is none of the mutated",
            (f"--mutant={FILE}:1.1-1.1:constant:0",): "there is no mutant",
            ("--files=nowhere",): "no mutated file has 'nowhere'",
        }
        for arguments, words in rows.items():
            with self.subTest(arguments):
                code, _, err = self.call(*arguments)
                self.assertEqual(code, 2)
                self.assertIn(words, err)
        for argument in ("--sample=0", "--shard=3/2", "--shard=1"):
            with self.subTest(argument), self.assertRaises(SystemExit) as ended:
                self.call(argument)
            self.assertEqual(ended.exception.code, 2)

    def test_no_map(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(mutate.main(["--map", str(self.path / "nowhere")]), 2)
        self.assertIn("record it by --record", err.getvalue())
