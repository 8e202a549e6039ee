"""``Program``: what the hooks, body, sub-tests and cleanups of a random test do; cases that do it.

``Alone`` does it as unittest alone does, the other cases on ranks, all of which do the same. ``told`` is what
unittest hears of a run, in a form in which two runs can be compared. ``harness.MultiProcessTestCase`` has the
list of the differences that there are.
"""

from __future__ import annotations

import json
import os
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from harness import MultiProcContinuousTest, MultiProcessTestCase, MultiThreadedTestCase
from harness.cases import verdict
from harness.cases.dtensor import LocalDTensorTestBase
from harness.cases.threaded import spawn_threads_and_init_comms
from harness.rank_merging import merge
from harness.ranks.result import final_result, run_body
from suites.selftest.faults.rows import PATIENT

VARIABLE = "SELFTEST_PROGRAM"

# A step is a list of its kind and arguments, all JSON values: a program travels in an environment variable.
Step = list[Any]


@dataclass(frozen=True, slots=True)
class Program:
    """One test: the marks on its class and on its method, and the steps of each hook by its name.

    ``own_failure``: the class has an exception of its own as ``failureException``.
    """

    class_mark: str = "plain"
    method: str = "test_plain"
    own_failure: bool = False
    hooks: dict[str, list[Step]] = field(default_factory=dict)


class OwnFailure(Exception):
    """A ``failureException`` that is no AssertionError."""


class OwnSkip(unittest.SkipTest):
    """A class of skips of a test's own."""


class Unheard(BaseException):
    """An exception that ``except Exception`` does not catch."""


RAISED: dict[str, type[BaseException]] = {
    kind.__name__: kind
    for kind in (AssertionError, ValueError, StopIteration, OwnFailure, OwnSkip, Unheard, SystemExit)
}

# -- the strategy

WORDS = st.sampled_from("abcdefgh")
FIXTURE_KINDS = sorted(kind for kind in RAISED if kind not in ("Unheard", "SystemExit"))  # others end the run
MESSAGES = st.sampled_from([[], ["part"], ["part"], [""], [None], [5]])  # none, or one that is a value
PARAMETERS = st.dictionaries(st.sampled_from("nm"), st.sampled_from([1, 2, "x", None]), max_size=2)


def _endings(kinds: Sequence[str]) -> st.SearchStrategy[Step]:
    raised = st.tuples(st.just("raise_"), st.sampled_from(kinds), WORDS).map(list)
    return st.one_of(
        st.just(["nothing"]), st.tuples(st.sampled_from(["fail", "skip"]), WORDS).map(list), raised
    )


def _nested(steps: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    several = st.lists(steps, max_size=3)
    subtest = st.tuples(st.just("subtest"), MESSAGES, PARAMETERS, several).map(list)
    cleanup = st.tuples(st.just("cleanup"), several).map(list)
    return st.one_of(subtest, subtest, cleanup)


STEPS = st.lists(st.recursive(_endings(sorted(RAISED)), _nested, max_leaves=6), max_size=4)
FIXTURE = st.lists(
    st.recursive(
        _endings(FIXTURE_KINDS),
        lambda steps: st.tuples(st.just("cleanup"), st.lists(steps, max_size=2)).map(list),
        max_leaves=3,
    ),
    max_size=2,
)
FIXTURES = ("setUpModule", "tearDownModule", "setUpClass", "tearDownClass")


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs of which most come to their body; their hooks are all the parent's or all the ranks'."""
    hooks = {"body": draw(STEPS)}
    around = draw(st.sampled_from([(), ("setUpRank", "tearDownRank"), ("setUp", "tearDown")]))
    for hook in around:
        if draw(st.booleans()):
            hooks[hook] = draw(STEPS)
    if draw(st.integers(0, 9)) == 0:
        hooks[draw(st.sampled_from(FIXTURES))] = draw(FIXTURE)
    program = Program(
        class_mark=draw(st.sampled_from(["plain"] * 6 + ["expected", "expected", "skipped"])),
        method=draw(st.sampled_from(["test_plain"] * 6 + ["test_expected"] * 4 + ["test_skipped"])),
        own_failure=draw(st.integers(0, 4)) == 0,
        hooks=hooks,
    )
    hypothesis.assume(not _differs_as_documented(program, ("setUp", "tearDown")))
    return program


def _differs_as_documented(program: Program, parents: Sequence[str]) -> bool:
    """Whether the program has one of the two differences that are left out here and not in ``Told``.

    Where a failure is expected, unittest takes a ``sys.exit`` of the method for it; and once it has seen the
    failure, it leaves the parent's ``tearDown`` and cleanups at their first sub-test. ``parents`` are the
    hooks that run in the parent.
    """
    if "expected" not in program.class_mark + program.method:
        return False
    exits = '"SystemExit"' in json.dumps(program.hooks["body"])
    after = json.dumps([program.hooks.get(hook) for hook in parents])
    return exits or '"subtest"' in after


# -- what performs a program


def current() -> Program:
    """The program that this process performs."""
    return Program(**json.loads(os.environ[VARIABLE]))


class Steps:
    """Performs steps on a case, on its class or in its module; ``add_cleanup`` is the one of that place."""

    def __init__(self, case: Any, add_cleanup: Any) -> None:
        self._case = case
        self._add_cleanup = add_cleanup

    def perform(self, hook: str) -> None:
        """Does what the current program has for a hook."""
        self.steps(current().hooks.get(hook, []))

    def steps(self, steps: Sequence[Step]) -> None:
        """Does one step after another."""
        for kind, *arguments in steps:
            getattr(self, kind)(*arguments)

    def nothing(self) -> None:
        """Does nothing."""

    def fail(self, word: str) -> NoReturn:
        """Fails as an assertion does."""
        raise getattr(self._case, "failureException", AssertionError)(f"<{word}>")

    def skip(self, word: str) -> NoReturn:
        """Skips by the usual exception."""
        raise unittest.SkipTest(word)

    def raise_(self, kind: str, word: str) -> NoReturn:
        """Raises an exception of one kind."""
        raise RAISED[kind](word if kind == "OwnSkip" else f"<{word}>")

    def cleanup(self, steps: Sequence[Step]) -> None:
        """Adds a cleanup that does steps."""
        self._add_cleanup(self.steps, steps)

    def subtest(self, message: list[Any], params: dict[str, Any], steps: Sequence[Step]) -> None:
        """Does steps in a sub-test; ``message`` is a list of one or none."""
        with self._case.subTest(*message, **params):
            self.steps(steps)


# The base of the mixin for the type checker; at run time it is mixed into cases of several kinds.
if TYPE_CHECKING:
    Mixin = MultiProcessTestCase
else:
    Mixin = object


class Performing(Mixin):
    """The hooks and tests of a case that performs the current program; it precedes the case."""

    @property
    def failureException(self) -> type[Exception]:  # type: ignore[override]  # a class attribute in unittest
        """The exception of a failed assertion."""
        return OwnFailure if current().own_failure else AssertionError

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        Steps(cls, cls.addClassCleanup).perform("setUpClass")

    @classmethod
    def tearDownClass(cls) -> None:
        try:
            Steps(cls, cls.addClassCleanup).perform("tearDownClass")
        finally:
            super().tearDownClass()

    def setUp(self) -> None:
        super().setUp()
        self.perform("setUp")

    def tearDown(self) -> None:
        try:
            self.perform("tearDown")
        finally:
            super().tearDown()

    def setUpRank(self) -> None:
        self.perform("setUpRank")

    def tearDownRank(self) -> None:
        self.perform("tearDownRank")

    def perform(self, hook: str) -> None:
        """Does what the current program has for a hook."""
        Steps(self, self.addCleanup).perform(hook)

    def test_plain(self) -> None:
        """The body of a test without marks."""
        self.perform("body")

    @unittest.expectedFailure
    def test_expected(self) -> None:
        """The body of a test that is to fail."""
        self.perform("body")

    @unittest.skip("the method")
    def test_skipped(self) -> None:
        """Never runs."""


def setUpModule() -> None:
    """Does what the current program has for it."""
    Steps(None, unittest.addModuleCleanup).perform("setUpModule")


def tearDownModule() -> None:
    """Does what the current program has for it."""
    Steps(None, unittest.addModuleCleanup).perform("tearDownModule")


class _Around(Performing):
    """A case whose only process is also its rank."""

    def setUp(self) -> None:
        super().setUp()
        self.setUpRank()

    def tearDown(self) -> None:
        self.tearDownRank()
        super().tearDown()


class Alone(_Around, unittest.TestCase):
    """The program as unittest alone runs it."""


class Merged(Performing, unittest.TestCase):
    """The program on two ranks that this thread plays one after the other, in milliseconds."""

    def __init__(self, method: str) -> None:
        super().__init__(method)
        body = getattr(self, method)
        setattr(self, method, _marked_as(body, lambda: self._judge(method)))

    def _judge(self, method: str) -> None:
        outcomes = []
        for rank in range(2):
            case = object.__new__(type(self))
            unittest.TestCase.__init__(case, method)
            result = run_body(case, case.setUpRank, case.tearDownRank)
            outcomes.append(final_result(result, result.ending, []).outcome(rank, 0.0))
        verdict.raise_verdict(self, merge(outcomes))


def _marked_as(method: Any, function: Any) -> Any:
    vars(function).update(vars(method.__func__))
    return function


class OnProcesses(Performing, MultiProcessTestCase):
    """The program on ranks that are processes, or what ``HARNESS_RANKS`` says."""

    world_size = 2


class OnThreads(Performing, MultiThreadedTestCase):
    """The program on ranks that are threads."""

    world_size = 2


class OnKeptRanks(Performing, MultiProcContinuousTest):
    """The program on pooled ranks that keep a process group."""

    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        return "gloo"


class OnLocalTensors(Performing, LocalDTensorTestBase):
    """The program in one process that simulates the ranks."""

    @property
    def world_size(self) -> int:
        return 2


class Decorated(_Around, unittest.TestCase):
    """The program's body on threads, its hooks around them."""

    @spawn_threads_and_init_comms(world_size=2)
    def test_plain(self) -> None:
        """The body of a test without marks."""
        self.perform("body")

    @unittest.expectedFailure
    @spawn_threads_and_init_comms(world_size=2)
    def test_expected(self) -> None:
        """The body of a test that is to fail."""
        self.perform("body")


def _with_marks(*bases: type[unittest.TestCase]) -> dict[tuple[str, str], type[unittest.TestCase]]:
    """The cases by name and mark; ranks find those with a mark at the top of this module, too."""
    cases: dict[tuple[str, str], type[unittest.TestCase]] = {}
    for base in bases:
        cases[base.__name__, "plain"] = base
        for mark, decorate in (
            ("expected", unittest.expectedFailure),
            ("skipped", unittest.skip("the class")),
        ):
            own: Any = type(f"{base.__name__}_{mark}", (base,), {"__module__": __name__})
            cases[base.__name__, mark] = globals()[own.__name__] = decorate(own)
    return cases


CASES = _with_marks(Alone, Merged, OnProcesses, OnThreads, OnKeptRanks, OnLocalTensors, Decorated)


# -- what unittest hears


class _Heard(unittest.TestResult):
    """Notes everything that unittest says."""

    def __init__(self) -> None:
        super().__init__()
        self.subtests: Counter[tuple[str, ...]] = Counter()
        self.passes = 0

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passes += 1

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        described = getattr(test, "_subDescription", None)
        if described is None:
            super().addSkip(test, reason)
        else:
            self.subtests["skipped", described(), reason] += 1

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        failed = err is not None and issubclass(err[0], test.failureException)
        how = "passed" if err is None else "failed" if failed else "error"
        self.subtests[how, subtest._subDescription()] += 1  # type: ignore[attr-defined]  # unittest's own
        self.texts = [*self.texts, str(err[1])] if err is not None else self.texts

    texts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """What unittest hears of a run, without the differences that there are.

    One test has one failure or error, the worst; its reasons to skip are a set; ``words`` are those that its
    exceptions have to say.
    """

    run: int
    passes: int
    problems: dict[str, str]
    skipped: frozenset[str]
    expected: int
    unexpected: int
    subtests: Counter[tuple[str, ...]]
    successful: bool


def told(program: Program, case: str, **environ: str) -> tuple[Told, str]:
    """Runs a program as one of the ``CASES``; returns what unittest heard, and all of its texts."""
    heard = _Heard()
    performed = {VARIABLE: json.dumps(asdict(program)), **PATIENT, **environ}
    with mock.patch.dict(os.environ, performed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        test = CASES[case, program.class_mark](program.method)
        unittest.TestSuite([test]).run(heard)
    problems = {_place(where): "failed" for where, _ in heard.failures}
    problems |= {_place(where): "error" for where, _ in heard.errors}
    text = "\n".join([*heard.texts, *(t for _, t in (*heard.errors, *heard.failures))])
    reasons = (part for _, reason in heard.skipped for part in reason.split("; "))
    summary = Told(
        run=heard.testsRun,
        passes=heard.passes,
        problems=problems,
        skipped=frozenset(reasons),
        expected=len(heard.expectedFailures),
        unexpected=len(heard.unexpectedSuccesses),
        subtests=heard.subtests,
        successful=heard.wasSuccessful(),
    )
    return summary, text


def _place(test: Any) -> str:
    return "test" if isinstance(test, unittest.TestCase) else str(test).partition(" ")[0]


def difference(program: Program, case: str, **environ: str) -> str:
    """How the case's run of a program differs from unittest's alone; "" where it does not."""
    if case == "Decorated" and _differs_as_documented(program, tuple(program.hooks)):
        return ""  # all of its hooks are the parent's
    alone, text_alone = told(program, "Alone")
    ranks, text = told(program, case, **environ)
    if alone != ranks:
        return f"{program}\nunittest alone: {alone}\non ranks:       {ranks}\n{text}"
    lost = [f"<{word}>" for word in "abcdefgh" if f"<{word}>" in text_alone and f"<{word}>" not in text]
    return f"{program}\nlost: {lost}\nunittest alone:\n{text_alone}\non ranks:\n{text}" if lost else ""


def main(results: str, programs_file: str) -> None:
    """Compares a file's programs in an external rank, and writes the difference of each to ``results``."""
    found = {}
    for number, program in enumerate(json.loads(Path(programs_file).read_text())):
        text = difference(Program(**program), "OnProcesses", HARNESS_LAUNCHER="external")
        found[str(number)] = ("differs" if text else "same", text)
    Path(results).write_text(json.dumps(found))
    sys.exit(0)
