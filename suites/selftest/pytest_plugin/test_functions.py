"""Tests test functions on ranks in real runs, by pytest and by ``run_tests.py``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import unittest

from suites.selftest.pytest_plugin.runs import PATIENCE_S, ROOT, PytestCase, sections

FUNCTIONS = """
import torch
import torch.distributed as dist
import harness

@pytest.mark.ranks(3)
def test_sum(rank_context):
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == rank_context.world_size == 3
    assert (rank_context.backend, rank_context.device) == ("gloo", torch.device("cpu"))

@pytest.mark.ranks(2)
def test_fail(rank_context):
    print("printed by", rank_context.rank)
    assert [1, 2, 3 + rank_context.rank] == [1, 2, 3]

@pytest.mark.ranks(2, mode="pooled")
@pytest.mark.parametrize("n", [1, 2])
def test_parameters(n, tmp_path, rank_context):
    assert n in (1, 2) and tmp_path.is_dir() and os.environ["WORLD_SIZE"] == "2"
    print("n is", n, "in", os.getpid())

@pytest.mark.ranks("size", mode="threads")
@pytest.mark.parametrize("size", [1, 3])
def test_number_by_parameter(size):
    assert dist.get_world_size() == size

@pytest.mark.ranks(2, backend=None, mode="threads")
def test_own_group(rank_context):
    assert not dist.is_initialized()
    rank_context.init_process_group("gloo")
    dist.barrier()

@pytest.mark.ranks(2)
def test_without_context():
    assert dist.get_world_size() == 2

class TestPlain:
    @pytest.mark.ranks(2)
    def test_method(self, rank_context):
        assert self.helper() + rank_context.rank in (3, 4)

    def helper(self):
        return 3

MADE_BY = "the import"

class TestSetUp:
    made_by = "the import"

    @classmethod
    def setup_class(cls):
        cls.made_by = "setup_class"

    @pytest.fixture(autouse=True)
    def of_fixture(self, tmp_path):
        global MADE_BY
        MADE_BY = "a fixture"
        self.path, self.lock = tmp_path, threading.Lock()

    def setup_method(self, method):
        self.called = method.__name__

    @pytest.mark.ranks(2)
    def test_copies(self):
        assert self.called == "test_copies" and self.path.is_dir()
        assert self.made_by == MADE_BY == "the import"

    def test_without_ranks(self):
        assert (self.made_by, MADE_BY) == ("setup_class", "a fixture")

    @pytest.mark.ranks(2)
    def test_no_copy(self):
        assert self.lock

class Base:
    n = 0

    @pytest.mark.ranks(2)
    def test_inherited(self):
        assert self.n == 1

class TestDerived(Base):
    n = 1

@pytest.mark.ranks(2)
@harness.timeout(5)
def test_hang(rank_context):
    if rank_context.rank == 1:
        time.sleep(600)
    dist.barrier()

@pytest.mark.ranks(2)
@pytest.mark.xfail
def test_expected(rank_context):
    assert 0

@pytest.mark.ranks(2)
@pytest.mark.xfail(raises=ZeroDivisionError)
def test_expected_class(rank_context):
    1 / 0

@pytest.mark.ranks(2)
@pytest.mark.xfail(raises=(ZeroDivisionError, OSError))
def test_other_class(rank_context):
    raise KeyError(rank_context.rank)

@pytest.mark.ranks(2)
def test_xfails(rank_context):
    pytest.xfail("in ranks")

@pytest.mark.ranks(2)
@pytest.mark.skipif(True, reason="of a mark")
def test_skip():
    assert 0

@pytest.mark.ranks(2)
@harness.skip_if_lt_x_gpu(1000)
def test_requirement():
    assert 0

@pytest.mark.ranks(2)
def test_capsys(capsys):
    pass

@pytest.mark.ranks(2)
def test_caplog(caplog):
    pass

@pytest.mark.ranks(2)
def test_recwarn(recwarn):
    pass

@pytest.mark.ranks(2)
def test_request(request):
    pass

@pytest.fixture(autouse=True)
def patched(monkeypatch):
    monkeypatch.setattr(os, "getlogin", lambda: "in pytest's process")
    monkeypatch.setenv("OF_FIXTURE", "yes")

@pytest.mark.ranks(2, mode="pooled")
@pytest.mark.parametrize("nth", [1, 2])
def test_patches(rank_context, monkeypatch, nth):
    assert os.environ["OF_FIXTURE"] == "yes" and os.getlogin is not threading.Lock
    monkeypatch.setattr(os, "getlogin", threading.Lock)
    assert os.getlogin is threading.Lock

@pytest.mark.ranks(2)
async def test_async(rank_context):
    assert 0

@pytest.mark.ranks(2)
def test_skips():
    pytest.skip("on all ranks")

@pytest.mark.ranks(2)
def test_subtests(rank_context, subtests):
    for n in range(3):
        with subtests.test("step", n=n):
            assert n != 1 or rank_context.rank == 0
    with subtests.test():
        pass

@pytest.mark.ranks("two")
def test_wrong_mark():
    pass

@pytest.mark.ranks(2, backend="glo")
def test_mistyped_backend():
    pass

@pytest.mark.ranks(2, backend="nccl")
def test_no_gpu():
    pass

def test_no_mark(rank_context):
    pass

@pytest.fixture
def seeded(rank_context):
    torch.manual_seed(rank_context.rank)

@pytest.mark.ranks(2)
def test_fixture_of_ranks(seeded):
    pass

class Case(unittest.TestCase):
    @pytest.mark.ranks(2)
    def test_of_a_case(self):
        pass

class CaseOnRanks(MultiProcessTestCase):
    world_size = 2

    @pytest.mark.xfail(raises=KeyError)
    def test_expected_of_a_case(self):
        raise KeyError(self.rank)

def made():
    @pytest.mark.ranks(2)
    def test_inside():
        pass
    return test_inside

test_inside = made()
"""
# The outcome of each, in the words of pytest's reports.
OUTCOMES = {
    "test_sum": "passed",
    "test_fail": "failed",
    "test_parameters[1]": "passed",
    "test_parameters[2]": "passed",
    "test_number_by_parameter[1]": "passed",
    "test_number_by_parameter[3]": "passed",
    "test_own_group": "passed",
    "test_without_context": "passed",
    "test_method": "passed",
    "test_copies": "passed",
    "test_without_ranks": "passed",
    "test_no_copy": "failed",
    "test_inherited": "passed",
    "test_hang": "failed",
    "test_expected": "skipped",
    "test_expected_class": "skipped",
    "test_other_class": "failed",
    "test_xfails": "skipped",
    "test_skip": "skipped",
    "test_requirement": "skipped",
    "test_async": "failed",
    "test_skips": "skipped",
    "test_subtests": "failed",
    "test_capsys": "failed",
    "test_caplog": "failed",
    "test_recwarn": "failed",
    "test_request": "failed",
    "test_patches[1]": "passed",
    "test_patches[2]": "passed",
    "test_wrong_mark": "failed",
    "test_mistyped_backend": "failed",
    "test_no_gpu": "failed",
    "test_no_mark": "error",
    "test_fixture_of_ranks": "error",
    "test_of_a_case": "failed",
    "test_expected_of_a_case": "skipped",
    "test_inside": "failed",
}
# What the text of those that cannot run says.
ERRORS = (
    "ranks cannot have pytest's 'capsys', which acts in pytest's own process: contextlib.redirect_stdout(",
    "ranks cannot have pytest's 'caplog', which acts in pytest's own process: a logging.Handler",
    "ranks cannot have pytest's 'recwarn', which acts in pytest's own process: warnings.catch_warnings(",
    "ranks cannot have pytest's 'request', which acts in pytest's own process: a fixture that returns",
    "@pytest.mark.ranks('two'): the test has no parameter 'two'",
    "@pytest.mark.ranks(2, backend='glo'): torch knows no process group backend 'glo'; did you mean gloo?",
    "rank_context is what a rank knows: put @pytest.mark.ranks(N) on the test",
    "rank_context.rank is not known in a fixture: fixtures are set up once, in pytest's process,",
    "the mark ranks is for test functions; a TestCase derives from harness.MultiProcessTestCase",
    "test_async is an async def, and a test on ranks has to be an ordinary function",
    "hint: self.lock was set in pytest's process, and a lock there cannot be pickled for ranks: set it in",
    "test_it.test_inside is defined inside a function, where ranks cannot import it",
)
CONFTEST = """
import json

def pytest_terminal_summary(terminalreporter):
    found = {}
    for kind in ("passed", "failed", "error", "skipped", "xfailed"):
        for report in terminalreporter.stats.get(kind, ()):
            found[report.nodeid.rpartition("::")[2]] = "skipped" if kind == "xfailed" else kind
    print("OUTCOMES", json.dumps(found))
"""


class FunctionTest(PytestCase):
    """Functions with the mark in real runs."""

    maxDiff = None

    def test_outcomes(self) -> None:
        """By pytest: outcomes, texts, sections for ranks, and fresh ranks in place of pooled ones."""
        self.write("test_it.py", FUNCTIONS)
        self.write("conftest.py", CONFTEST)
        run = self.pytest("-rA", "--strict-markers")
        (told,) = (line for line in run.out.splitlines() if line.startswith("OUTCOMES "))
        self.assertEqual(json.loads(told.removeprefix("OUTCOMES ")), OUTCOMES, run.out)
        for text in ERRORS:
            self.assertIn(text, run.out)
        self.assertIn("cause: rank 1 failed: AssertionError: assert [1, 2, 4] == [1, 2, 3]", run.out)
        self.assertIn("At index 2 diff: 4 != 3", run.out)
        (no_gpu,) = re.findall(r"(?ms)^_+ test_no_gpu _+\n(.*?)^_{5}", run.out)
        self.assertRegex(no_gpu, r"\A.*: error .*\ncause: rank . raised: \S+: backend 'nccl' needs a device")
        self.assertNotIn("Traceback", no_gpu)
        self.assertIn("printed by 1", sections(run.out, "Captured stdout of rank 1 call"))
        self.assertIn("rank 1 never came to barrier #1", run.out)
        self.assertRegex(run.out, r"reproduce: \S+ -m pytest test_it.py::test_fail ")
        self.assertRegex(run.out, r"SUBFAILED\[step\] \(n=1\) test_it.py::test_subtests")
        self.assertRegex(run.out, r"SKIPPED \[1\] test_it.py:\d+: on all ranks")
        self.assertNotIn("During handling", run.out)
        self.assertNotIn("harness/pytest_plugin/", run.out.split("warnings summary")[0])

    def test_new_interpreter(self) -> None:
        """In ranks that are not forks of pytest's process, asserts tell their values too."""
        self.write("test_it.py", FUNCTIONS)
        run = self.pytest("-k", "test_fail", "--rank-launcher", "spawn")
        self.assertEqual(run.counts, {"failed": 1, "deselected": len(OUTCOMES) - 1}, run.out)
        self.assertIn("assert [1, 2, 4] == [1, 2, 3]", run.out)
        self.assertIn("At index 2 diff: 4 != 3", run.out)

    def test_by_the_runner(self) -> None:
        """By ``run_tests.py``: the same outcomes, with ranks and with the demand of ranks."""
        self.write("test_it.py", FUNCTIONS)
        command = [sys.executable, str(ROOT / "run_tests.py"), "test_it.py", "--report-dir", "report"]
        variables = self.environ()
        for arguments in (["--list", "--json"], []):
            done = subprocess.run(
                [*command, *arguments],
                cwd=self.project,
                env=variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            if arguments:
                units = {unit["id"]: unit for unit in map(json.loads, done.stdout.splitlines())}
                self.assertEqual(units["test_it.test_sum"]["demand"]["ranks"], 3, done.stderr)
        lines = (self.project / "report" / "results.jsonl").read_text().splitlines()
        records = [record for record in map(json.loads, lines) if record["kind"] == "test"]
        found = {record["id"].rpartition(".")[2]: record for record in records}
        words = {"expected failure": "skipped", "timed out": "failed"}
        statuses = {name: words.get(r["status"], r["status"]) for name, r in found.items()}
        errors = dict.fromkeys(("test_no_gpu", "test_other_class", "test_no_copy"), "error")
        self.assertEqual(statuses, {**OUTCOMES, **errors}, done.stdout)
        self.assertEqual(len(found["test_fail"]["ranks"]), 2)

    def test_of_the_documents(self) -> None:
        """The test function in the documents passes when it is copied out."""
        page = (ROOT / "docs" / "pytest.rst").read_text(encoding="utf-8")
        indented = page.partition(".. code-block:: python\n\n")[2].partition("\n\nThe mark")[0]
        self.write("test_it.py", "import pytest, torch\nimport torch.distributed as dist\n", head="")
        with (self.project / "test_it.py").open("a", encoding="utf-8") as file:
            file.write(textwrap.dedent(indented))
        run = self.pytest()
        self.assertEqual(run.counts, {"passed": 2}, run.out)

    def test_a_project_with_such_a_mark(self) -> None:
        """A project's own mark of that name keeps its meaning: none to this plugin."""
        self.write("pytest.ini", "[pytest]\nmarkers = ranks: whatever the project says\n")
        self.write(
            "test_it.py",
            """
            import sys
            import pytest

            @pytest.mark.ranks(2)
            def test_it():
                assert "harness.cases" not in sys.modules
            """,
            head="",
        )
        run = self.pytest()
        self.assertEqual(run.counts, {"passed": 1}, run.out)


if __name__ == "__main__":
    unittest.main()
