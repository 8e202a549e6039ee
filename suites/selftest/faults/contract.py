"""Cases that use upstream's contract, its overridable hooks included, in every way that it allows."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from harness import MultiProcessTestCase, TestCase
from harness.cases.defaults import WORLD_SIZE
from suites.selftest.faults.base import FaultyCase


def decorated(method: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wraps a method without changing it, because upstream's return-code checks are keyed by
    ``__wrapped__``.
    """

    @functools.wraps(method)
    def wrapper(self: Any) -> None:
        method(self)

    return wrapper


class Codes(FaultyCase):
    """Tests that announce the return codes of their ranks."""

    def setUp(self) -> None:
        super().setUp()
        self.special_return_code_checks = {
            _key(self.test_announced): 3,
            _key(self.test_announced_and_not_kept): 3,
            _key(self.test_announced_for_rank_0): 3,
        }
        self.skip_return_code_checks = [
            _key(self.test_any_end),
            _key(self.test_any_end_but_a_failure),
        ]
        self._spawn_processes()

    @decorated
    def test_announced(self) -> None:
        """Every rank ends with the announced code 3, by os._exit or by sys.exit."""
        if self.rank == 0:
            os._exit(3)
        sys.exit(3)

    @decorated
    def test_announced_for_rank_0(self) -> None:
        """Only rank 0 ends with code 3, which is the rank whose code upstream compares."""
        if self.rank == 0:
            os._exit(3)

    @decorated
    def test_announced_and_not_kept(self) -> None:
        """No rank ends with the announced code 3."""

    @decorated
    def test_any_end(self) -> None:
        """The ranks end with codes that the test said to ignore."""
        os._exit(self.rank + 5)

    @decorated
    def test_any_end_but_a_failure(self) -> None:
        """Rank 1 reports a failure although return codes are ignored."""
        if self.rank == 1:
            self.fail("a failure all the same")
        os._exit(5)


def _key(method: Callable[[], None]) -> Callable[..., object]:
    """Returns the function under the decorator, which upstream's tests write as
    ``self.test_x.__wrapped__``.
    """
    key: Callable[..., object] = method.__wrapped__  # type: ignore[attr-defined]
    return key


class WithoutSetUp(MultiProcessTestCase):
    """A case without setUp and world size: its ranks start when the method runs."""

    def test_world_size(self) -> None:
        """The world size is upstream's default on a machine without accelerators."""
        self.assertEqual(self.world_size, WORLD_SIZE)
        self.assertIn(self.rank, range(WORLD_SIZE))


class WithProperty(MultiProcessTestCase):
    """A case whose world size is a property, as upstream's tests write it."""

    @property
    def world_size(self) -> int:
        """Returns another size than the default."""
        return 3

    def test_world_size(self) -> None:
        """Each rank sees a world size of 3, and then fails."""
        self.assertEqual(self.world_size, 3)
        self.fail(f"rank {self.rank}")


class WithZero(MultiProcessTestCase):
    """A case with a world size of 0."""

    world_size = 0

    def test_anything(self) -> None:
        """Never runs, because no rank can be started."""


class WithWords(MultiProcessTestCase):
    """A case whose world size is not a number."""

    world_size = "several"  # type: ignore[assignment]  # the fault

    def test_anything(self) -> None:
        """Never runs, because no rank can be started."""


class SetUpRaises(FaultyCase):
    """setUp raises after it has started the ranks, so that tearDown does not run."""

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()
        self.started = [p.pid for p in self.processes]
        raise OSError("setUp went wrong after the ranks had started")

    def test_anything(self) -> None:
        """Closes its standard input; the ranks pass without waiting for anything."""
        sys.stdin.close()


class TearDownRaises(FaultyCase):
    """tearDown raises in the parent."""

    def tearDown(self) -> None:
        super().tearDown()
        raise OSError("tearDown went wrong")

    def test_anything(self) -> None:
        """Passes."""


class Handles(FaultyCase):
    """Notes how the parent sees its rank processes before and after the test."""

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()
        self.before = [(p.pid, p.exitcode, p.is_alive()) for p in self.processes]

    def tearDown(self) -> None:
        self.after = [(p.pid, p.exitcode, p.is_alive()) for p in self.processes]
        super().tearDown()

    def test_pass(self) -> None:
        """Passes, so that every rank ends with code 0."""

    def test_codes(self) -> None:
        """Rank 0 fails, which ends it with upstream's code for an error, and rank 1 ends by SIGKILL."""
        if self.rank == 1:
            os.kill(os.getpid(), 9)
        self.fail("rank 0")

    def test_skip(self) -> None:
        """Skips, so that every rank ends with upstream's code for a skip."""
        self.skipTest("all of us")


class KillsItsRanks(FaultyCase):
    """The parent kills rank 1 through its process handle, as upstream's fault-tolerance tests do."""

    def _join_processes(self, fn: Callable[..., object]) -> None:
        self._spawn_processes()
        self.processes[1].kill()
        super()._join_processes(fn)

    def test_killed(self) -> None:
        """Rank 1 waits for ever until it is killed; rank 0 passes."""
        if self.rank == 1:
            self.tell("never heard")


class Overrides(FaultyCase):
    """Overrides each of upstream's hooks and calls the original from it."""

    def setUp(self) -> None:
        super().setUp()
        self.calls: list[str] = []
        self._spawn_processes()

    def _current_test_name(self) -> str:
        return super()._current_test_name()

    def _join_processes(self, fn: Callable[..., object]) -> None:
        self.calls.append("_join_processes")
        super()._join_processes(fn)

    def _check_return_codes(self, fn: Callable[..., object], elapsed_time: float) -> None:
        self.calls.append("_check_return_codes")
        super()._check_return_codes(fn, elapsed_time)

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        print("before _run", rank, test_name)
        super()._run(rank, test_name, file_name, parent_pipe, **kwargs)
        print("after _run")

    def run_test(self, test_name: str, parent_pipe: Any) -> None:
        print("before run_test")
        super().run_test(test_name, parent_pipe)
        print("after run_test")

    def test_pass(self) -> None:
        """Passes after all the hooks before it have run."""
        print("test")

    def test_fail(self) -> None:
        """Fails, so that an override's code after ``run_test`` does not run, because it ends by sys.exit."""
        self.fail("no further")


class OwnRun(FaultyCase):
    """A ``_run`` that runs the method itself and never calls ``run_test``, as some upstream tests do."""

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        self = cls(test_name)
        self.rank = rank
        self.file_name = file_name
        try:
            getattr(self, test_name)()
        except AssertionError as error:
            parent_pipe.send(f"Traceback\nAssertionError: {error}\n")
            sys.exit(cls.TEST_ERROR_EXIT_CODE)

    def test_fail(self) -> None:
        """Rank 1 fails, and ``_run`` sends its own traceback over the pipe."""
        if self.rank == 1:
            self.fail("told over the pipe")


class RunForgets(FaultyCase):
    """A ``_run`` that runs nothing on rank 1."""

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        if rank == 0:
            super()._run(rank, test_name, file_name, parent_pipe, **kwargs)

    def test_anything(self) -> None:
        """Runs on rank 0 alone."""


class AnotherName(FaultyCase):
    """``_current_test_name`` chooses another method for the ranks to run."""

    def _current_test_name(self) -> str:
        return "other_method"

    def test_anything(self) -> None:
        """Fails if the ranks run this method."""
        self.fail("the wrong method")

    def other_method(self) -> None:
        """The method that the ranks are to run."""
        print("the other method")


class NotARankTest(TestCase):
    """An ordinary single-process test beside the multi-rank ones."""

    def test_pass(self) -> None:
        """Passes."""


def local_case() -> type[MultiProcessTestCase]:
    """Returns a case class that no other process can import."""

    class Local(FaultyCase):
        """A case class that is defined in a function."""

        def test_anything(self) -> None:
            """Never runs."""

    return Local
