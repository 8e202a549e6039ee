"""Cases that use upstream's contract in every way that it allows."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from harness import DistributedTestBase, MultiProcessTestCase, TestCase
from harness.cases.multiprocess import DEFAULT_WORLD_SIZE
from suites.selftest.faults.base import FaultyCase


def decorated(method: Callable[[Any], None]) -> Callable[[Any], None]:
    """Does nothing but what every decorator does: upstream's checks are keyed by ``__wrapped__``."""

    @functools.wraps(method)
    def wrapper(self: Any) -> None:
        method(self)

    return wrapper


class Codes(FaultyCase):
    """Return codes that a test announces."""

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
        """Every rank ends with 3, by one way or another."""
        if self.rank == 0:
            os._exit(3)
        sys.exit(3)

    @decorated
    def test_announced_for_rank_0(self) -> None:
        """Upstream compares rank 0's."""
        if self.rank == 0:
            os._exit(3)

    @decorated
    def test_announced_and_not_kept(self) -> None:
        """Nobody ends with 3."""

    @decorated
    def test_any_end(self) -> None:
        """How ranks end says nothing."""
        os._exit(self.rank + 5)

    @decorated
    def test_any_end_but_a_failure(self) -> None:
        """What ranks report still counts."""
        if self.rank == 1:
            self.fail("a failure all the same")
        os._exit(5)


def _key(method: Callable[[], None]) -> Callable[..., object]:
    """What upstream's tests write as ``self.test_something.__wrapped__``."""
    key: Callable[..., object] = method.__wrapped__  # type: ignore[attr-defined]
    return key


class WithoutSetUp(MultiProcessTestCase):
    """No setUp, no world size: ranks start when the method runs."""

    def test_world_size(self) -> None:
        """Upstream's default on a machine without accelerators."""
        self.assertEqual(self.world_size, DEFAULT_WORLD_SIZE)
        self.assertIn(self.rank, range(DEFAULT_WORLD_SIZE))


class WithProperty(MultiProcessTestCase):
    """World size as upstream's tests write it."""

    @property
    def world_size(self) -> int:
        """Three."""
        return 3

    def test_world_size(self) -> None:
        """In a rank."""
        self.assertEqual(self.world_size, 3)
        self.fail(f"rank {self.rank}")


class WithZero(MultiProcessTestCase):
    """No rank at all."""

    world_size = 0

    def test_anything(self) -> None:
        """Never runs."""


class WithWords(MultiProcessTestCase):
    """Not a number."""

    world_size = "several"  # type: ignore[assignment]  # the fault

    def test_anything(self) -> None:
        """Never runs."""


class SetUpRaises(FaultyCase):
    """The ranks are there when setUp goes wrong; tearDown does not run then."""

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()
        self.started = [p.pid for p in self.processes]
        raise OSError("setUp went wrong after the ranks had started")

    def test_anything(self) -> None:
        """Its ranks wait for nothing."""
        sys.stdin.close()


class TearDownRaises(FaultyCase):
    """The parent's tearDown goes wrong."""

    def tearDown(self) -> None:
        super().tearDown()
        raise OSError("tearDown went wrong")

    def test_anything(self) -> None:
        """Passes."""


class Handles(FaultyCase):
    """What the parent sees of its ranks."""

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()
        self.before = [(p.pid, p.exitcode, p.is_alive()) for p in self.processes]

    def tearDown(self) -> None:
        self.after = [(p.pid, p.exitcode, p.is_alive()) for p in self.processes]
        super().tearDown()

    def test_pass(self) -> None:
        """Ends with 0."""

    def test_codes(self) -> None:
        """Ends with upstream's code for an error, and by signal."""
        if self.rank == 1:
            os.kill(os.getpid(), 9)
        self.fail("rank 0")

    def test_skip(self) -> None:
        """Ends with upstream's code for a skip."""
        self.skipTest("all of us")


class KillsItsRanks(FaultyCase):
    """The parent ends rank 1 by its handle, as upstream's fault-tolerance tests do."""

    def _join_processes(self, fn: Callable[..., object]) -> None:
        self._spawn_processes()
        self.processes[1].kill()
        super()._join_processes(fn)

    def test_killed(self) -> None:
        """Rank 1 never comes back: nobody ever hears it."""
        if self.rank == 1:
            self.tell("never heard")


class Overrides(FaultyCase):
    """Every hook of upstream's is overridden and calls on."""

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
        """All hooks run, in their order."""
        print("test")

    def test_fail(self) -> None:
        """What comes after the test in an override does not run, as upstream's sys.exit has it."""
        self.fail("no further")


class OwnRun(FaultyCase):
    """A ``_run`` that never calls ``run_test`` but runs the method itself, as some of upstream's do."""

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
        """Sends its own traceback."""
        if self.rank == 1:
            self.fail("told over the pipe")


class RunForgets(FaultyCase):
    """A ``_run`` that runs nothing."""

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        if rank == 0:
            super()._run(rank, test_name, file_name, parent_pipe, **kwargs)

    def test_anything(self) -> None:
        """Runs on rank 0 alone."""


class AnotherName(FaultyCase):
    """``_current_test_name`` decides which method ranks run."""

    def _current_test_name(self) -> str:
        return "other_method"

    def test_anything(self) -> None:
        """Not this."""
        self.fail("the wrong method")

    def other_method(self) -> None:
        """This."""
        print("the other method")


class Started(DistributedTestBase):
    """Starts its ranks by itself and tells them how many they are."""

    world_size = 2

    def test_world_size(self) -> None:
        """In the environment, too."""
        self.assertEqual(os.environ["WORLD_SIZE"], "2")


class NotARankTest(TestCase):
    """An ordinary test beside the others."""

    def test_pass(self) -> None:
        """In one process."""


def local_case() -> type[MultiProcessTestCase]:
    """A class that no other process can import."""

    class Local(FaultyCase):
        """Defined in a function."""

        def test_anything(self) -> None:
            """Never runs."""

    return Local
