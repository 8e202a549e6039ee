"""Ranks that somebody else started (torchrun, srun, mpirun): this process is one of them.

    process r, whose starter owns it                       the store, at MASTER_ADDR:MASTER_PORT
      come, and wait for the others  <------------------>    who is here
      run the test's method as rank r, in this very process
      append the rank's outcome to the test's log -------->  log of the test
      read the log until every rank has its word there <---
      merge() --> the verdict
      at the end: leave, when all are done <------------->   who is done

Every process runs the same tests in the same order. A test whose ranks are no processes (threads, local
tensors) is each process's own. A log has one order for all processes and the first word about a rank counts,
so all merge the same outcomes and come to the same verdict; a word that comes too late is too late for
everybody, its own process included.

What cannot be had with processes that are not ours:

* No rank is killed or replaced. One that dies takes its part of all later tests along: they are errors at
  once. One that hangs ends its own process if nothing else helps. What its starter then does with the others
  is the starter's business: torchrun ends them all.
* A rank that is gone has neither exit code nor signal nor stack here: only its starter knows them. Its peers
  find it missing when they fail by it, or at the deadline. A rank that still runs Python sends its stack.
* What ranks print is not captured, and state that a test leaves in its process stays there: it is reported.
* A test has no ``processes``; what it says of ranks that end by ``os._exit`` or a signal cannot be met.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

from harness.errors import HarnessError, LaunchError
from harness.outcomes import RankOutcome, ranks_text
from harness.protocol import Lost, Report, decode, encode
from harness.ranks.external.launcher_environment import LauncherEnvironment, launcher_environment
from harness.settings import LONGEST_S
from harness.system.per_process import PerProcess

# Seconds between two questions for a word that comes soon or never. A question takes some 0.1 ms, and they
# end with the grace that follows a failure.
ASK_EVERY_S = 0.01
# What a process leaves where others look for it, once it has waited for them in vain.
_GAVE_UP = "gave up"


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """What a test's log says of a rank; ``lost`` where its process will not take part in later tests."""

    outcome: RankOutcome
    lost: bool


class OutcomeLog:
    """The words about one test's ranks, in one order for all processes: a list in the store that only grows.

    One thread reads while others append: the store's client serves one call at a time, so each side has its
    own. A store that is gone, or does not answer, is a RuntimeError (torch's DistError) in every call.
    """

    def __init__(self, writer: Any, reader: Any, key: str) -> None:
        self._writer = writer
        self._reader = reader
        self._key = key

    def append(self, outcome: RankOutcome, *, lost: bool = False) -> None:
        """Puts a word at the end."""
        word = encode((Lost if lost else Report)(outcome)).decode()
        number = 0
        while self._writer.compare_set(f"{self._key}/{number}", "", word) != word.encode():
            number += 1

    def read(self, number: int, timeout_s: float, *, soon: bool = False) -> LoggedOutcome | None:
        """The word of that number, from 0; None where there is none within so many seconds.

        ``soon`` where it comes soon or never: torch warns of each wait for a key that ends without it.
        """
        key = f"{self._key}/{number}"
        if not (_asked_for if soon else _there)(self._reader, key, timeout_s):
            return None
        message = decode(self._reader.get(key))
        assert isinstance(message, Report | Lost), message
        return LoggedOutcome(message.outcome, isinstance(message, Lost))

    def whereabouts(self, rank: int) -> str:
        """The last test that a rank began, in words."""
        key = f"at/{rank}"
        if not self._writer.check([key]):
            return "it has begun no test"
        return f"the last test that it began is {self._writer.get(key).decode()}"


def _there(store: Any, key: str, timeout_s: float) -> bool:
    """Waits until a key is there, so many seconds at most."""
    from torch.distributed import DistStoreError

    if store.check([key]):
        return True
    if timeout_s <= 0:
        return False
    try:
        store.wait([key], timedelta(seconds=min(timeout_s, LONGEST_S)))
    except DistStoreError:
        return bool(store.check([key]))
    return True


def _asked_for(store: Any, key: str, timeout_s: float) -> bool:
    """``_there`` without a wait in torch."""
    until = time.monotonic() + timeout_s
    while not store.check([key]):
        if time.monotonic() >= until:
            return False
        time.sleep(ASK_EVERY_S)
    return True


class ExternalRankSet:
    """All processes of a run, as this one knows them. Owns its connections to the store, the store itself
    where it hosts it, and on rank 0 the directory of rendezvous files.

    ``lost`` has the ranks that will take part in no further test, each with the test in which that came out.
    """

    def __init__(self, where: LauncherEnvironment, timeout_s: float) -> None:
        """Comes, and waits for all others; LaunchError where they are not all here after ``timeout_s``."""
        self.launched = where
        self.lost: dict[int, str] = {}
        self._owner = os.getpid()
        self._times: dict[str, int] = {}
        self._directory = ""
        try:
            self._clients = [self._connected(where, timeout_s, host) for host in (True, False)]
            self._come(timeout_s)
        except RuntimeError as error:
            if isinstance(error, HarnessError):
                raise
            raise LaunchError(
                f"rank {where.rank} finds no store at {where.address} within {timeout_s:g} s: "
                f"{first_line(error)}"
            ) from None

    def _connected(self, where: LauncherEnvironment, timeout_s: float, host: bool) -> Any:
        from torch.distributed import TCPStore

        return TCPStore(
            where.master_addr,
            where.master_port,
            world_size=where.world_size,
            is_master=host and where.rank == 0 and not where.agent_store,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
            multi_tenant=True,  # a test's own env:// rendezvous asks rank 0 for a server at the same port
        )

    def _come(self, timeout_s: float) -> None:
        from torch.distributed import PrefixStore

        own = self.launched.rank
        until = time.monotonic() + timeout_s
        base = f"harness/{self.launched.restart_count}"
        # A job may run one program after another on one store: each process's n-th belong together.
        turn = self._clients[0].add(f"{base}/turns/{own}", 1)
        self._writer, self._reader = (PrefixStore(f"{base}/{turn}", client) for client in self._clients)
        if own == 0:
            self._directory = tempfile.mkdtemp(prefix="harness-external-")
            self._writer.set("directory", self._directory)
        self._writer.set(f"here/{own}", "")
        absent = [
            r for r in self.everybody if not _there(self._writer, f"here/{r}", until - time.monotonic())
        ]
        gave_up = [r for r in self.everybody if r not in absent and self._writer.get(f"here/{r}")]
        if absent or gave_up:
            self._writer.set(f"here/{own}", _GAVE_UP)
            self._remove_directory()
            who = f"{ranks_text(absent)} did not come" if absent else f"{ranks_text(gave_up)} had given up"
            where = self.launched.address
            raise LaunchError(
                f"{who}: rank {own} of {self.launched.world_size} waited {timeout_s:g} s at {where}"
            )
        self._directory = self._writer.get("directory").decode()

    @property
    def everybody(self) -> range:
        """All ranks that were started."""
        return range(self.launched.world_size)

    def require(self, world_size: int) -> None:
        """LaunchError unless there are that many ranks, and all of them still with us."""
        if world_size > self.launched.world_size:
            raise LaunchError(
                f"the test asks for {world_size} ranks, and {self.launched.world_size} were started: start "
                f"{world_size} or more, or give the test a smaller world_size"
            )
        lost = [rank for rank in self.lost if rank < world_size]
        if lost:
            raise LaunchError(
                f"{ranks_text(lost)} cannot take part any more, since {self.lost[lost[0]]}; ranks that "
                "somebody else started cannot be replaced: start them all again"
            )

    def store_gone(self, error: BaseException) -> LaunchError:
        """What there is to say of an error of the store's, once everybody had come to it."""
        return LaunchError(
            f"no word from the other ranks: the store at {self.launched.address} is gone, and "
            f"probably the process that hosts it ({first_line(error)})"
        )

    def times(self, test_id: str) -> int:
        """How often this process has begun that test."""
        return self._times.get(test_id, 0)

    def begin(self, test_id: str) -> OutcomeLog:
        """A test begins in this process; the log for its ranks' words. LaunchError without a store."""
        number = self._times[test_id] = self.times(test_id) + 1
        try:
            self._writer.set(f"at/{self.launched.rank}", test_id)
        except RuntimeError as error:
            raise self.store_gone(error) from None
        return OutcomeLog(self._writer, self._reader, f"log/{test_id}#{number}")

    def rendezvous(self, test_id: str) -> str:
        """The path of the test's rendezvous file, the same for all ranks; it exists. It lies below rank 0's
        temporary directory (TMPDIR): ranks on several hosts need that on a file system which they share.

        LaunchError where there is no such directory on this host.
        """
        name = sha256(f"{test_id}#{self.times(test_id)}".encode()).hexdigest()[:16]
        path = os.path.join(self._directory, name)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            raise LaunchError(
                f"rank {self.launched.rank} cannot use rank 0's {path} ({error.strerror}): set TMPDIR to a "
                "directory that all hosts share"
            ) from None
        return path

    def leave(self, timeout_s: float) -> None:
        """Waits, so many seconds at most, until all that are not lost are done: a starter may end everybody
        when the first process ends, and the store ends with the process that hosts it. Only once, and only
        in the process that came."""
        if os.getpid() != self._owner:
            return
        self._owner = -1
        until = time.monotonic() + timeout_s
        with suppress(RuntimeError):  # the store is gone, and with it anybody to wait for
            self._writer.set(f"done/{self.launched.rank}", "")
            self._await("done", until)
            self._writer.set(f"bye/{self.launched.rank}", "")
            if self.launched.rank == 0:
                self._await("bye", until)
        self._remove_directory()

    def _await(self, what: str, until: float) -> None:
        for rank in self.everybody:
            if rank not in self.lost:
                _there(self._writer, f"{what}/{rank}", until - time.monotonic())

    def _remove_directory(self) -> None:
        if self.launched.rank == 0:
            shutil.rmtree(self._directory, ignore_errors=True)


def first_line(error: BaseException) -> str:
    """An error of torch's without the C++ stack below it."""
    return str(error).strip().split("\n", 1)[0]


@dataclass(slots=True)
class _OwnRankSet:
    """This process's rank set, or why there is none: whoever has waited for the others in vain waits once."""

    made: ExternalRankSet | None = None
    failure: HarnessError | None = None


_kept = PerProcess(_OwnRankSet)


def own_rank_set(environ: Mapping[str, str], timeout_s: float, leave_within_s: float) -> ExternalRankSet:
    """This process's rank set. The first call joins it, with the variables of ``environ``, and has it left
    when the process ends; both within so many seconds. UsageError or LaunchError where that fails, at each
    call the same."""
    kept = _kept.get()
    if kept.failure is not None:
        raise kept.failure.with_traceback(None)
    if kept.made is None:
        try:
            kept.made = ExternalRankSet(launcher_environment(environ), timeout_s)
        except HarnessError as failure:
            kept.failure = failure
            raise
        atexit.register(kept.made.leave, leave_within_s)
    return kept.made
