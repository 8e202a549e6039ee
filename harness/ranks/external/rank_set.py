"""``ExternalRankSet``: how ranks that torchrun, srun or mpirun started meet and exchange outcomes in a store.

    process r, owned by its launcher                       the store, at MASTER_ADDR:MASTER_PORT
      join, and wait for the other ranks <---------------> here/<rank>
      say what it is; rank 0 compares all ---------------> arrival/<rank>, refusal
      run the test's method as rank r, in this process
      append the rank's outcome to the test's log -------> log of the test
      read the log until it has every rank's outcome <----
      merge() --> the verdict
      at the end: leave, when all are done <-------------> done/<rank>

Every process runs the same tests in the same order. A test on threads or local tensors runs whole in each
process. A log has one order for all processes and the first outcome of a rank counts, so all processes merge
the same outcomes and reach the same verdict; an outcome that is appended too late is ignored by all of them,
by the rank's own process too.

What is impossible with processes that the harness did not start:

* No rank is killed or replaced. When one dies, all later tests that need it are errors at once. One that
  hangs ends its own process if nothing else helps. The launcher decides what then becomes of the other ranks:
  torchrun ends them all.
* A dead rank has neither exit code nor signal nor stack here: only its launcher knows them. Its peers notice
  it when communication with it fails, or at the deadline. A rank that still runs Python sends its stack.
* What ranks print is not captured, and state that a test leaves in its process is not undone, only reported.
* A test has no ``processes``, and its expectations of ranks that end by ``os._exit`` or a signal fail.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from time import monotonic
from typing import Any

from harness.errors import HarnessError, LaunchError
from harness.outcomes import ranks_text
from harness.ranks.external import arrival
from harness.ranks.external.launcher_environment import LauncherEnvironment, launcher_environment
from harness.ranks.external.outcome_log import OutcomeLog, asked_for, there
from harness.ranks.external.unittest_run import UnittestRun
from harness.system.per_process import PerProcess

# The value of a process's "here" key after it has given up waiting for the other ranks.
_GAVE_UP = "gave up"


class ExternalRankSet:
    """All ranks of a run, as this process sees them, and its connections to their store.

    The process that hosts the store owns it, and rank 0 owns the directory of rendezvous files. ``lost`` maps
    the ranks that will take part in no further test to the test in which they were lost. ``over`` is set when
    the launcher ends the job: nobody is waited for any more.
    """

    def __init__(self, where: LauncherEnvironment, timeout_s: float, run: UnittestRun | None = None) -> None:
        """Joins, and waits ``timeout_s`` seconds for all other ranks; ``run`` is what unittest runs here.

        LaunchError where one of them is missing, or where they cannot run tests together.
        """
        self.launched = where
        self.lost: dict[int, str] = {}
        self.over = threading.Event()
        self._owner = os.getpid()
        self._times: dict[str, int] = {}
        self._gone = False
        self._directory = ""
        try:
            self._clients = [self._connected(where, timeout_s, host) for host in (True, False)]
            self._come(timeout_s)
            self._compare(run or UnittestRun(), timeout_s)
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
            # A test's own env:// rendezvous also starts a server at this port in rank 0
            # (pytorch/pytorch#41614, pytorch/pytorch#58331).
            multi_tenant=True,
        )

    def _come(self, timeout_s: float) -> None:
        from torch.distributed import PrefixStore

        own = self.launched.rank
        until = monotonic() + timeout_s
        base = f"harness/{self.launched.restart_count}"
        # A job may run several programs one after another on one store; the n-th of each rank is the same.
        turn = self._clients[0].add(f"{base}/turns/{own}", 1)
        self._writer, self._reader = (PrefixStore(f"{base}/{turn}", client) for client in self._clients)
        if own == 0:
            self._directory = tempfile.mkdtemp(prefix="harness-external-")
            token = secrets.token_hex()
            with open(os.path.join(self._directory, arrival.TOKEN), "w", encoding="utf-8") as stream:
                stream.write(token)
            self._writer.set("directory", self._directory)
            self._writer.set("token", token)
        self._writer.set(f"here/{own}", "")
        absent = [r for r in self.all_ranks if not there(self._writer, f"here/{r}", until - monotonic())]
        gave_up = [r for r in self.all_ranks if r not in absent and self._writer.get(f"here/{r}")]
        if absent or gave_up:
            self._writer.set(f"here/{own}", _GAVE_UP)
            self._remove_directory()
            who = f"{ranks_text(absent)} did not come" if absent else f"{ranks_text(gave_up)} had given up"
            where = self.launched.address
            raise LaunchError(
                f"{who}: rank {own} of {self.launched.world_size} waited {timeout_s:g} s at {where}"
            )
        self._directory = self._writer.get("directory").decode()

    def _compare(self, run: UnittestRun, timeout_s: float) -> None:
        """Says what this process is, and hears from rank 0 whether all can run tests together."""
        own, until = self.launched.rank, monotonic() + timeout_s
        token = self._writer.get("token").decode()
        told = arrival.own_arrival(own, run, self._directory, token)
        self._writer.set(f"arrival/{own}", arrival.to_text(told))
        if own == 0:
            keys = [f"arrival/{rank}" for rank in self.all_ranks]
            silent = [
                rank for rank in self.all_ranks if not there(self._writer, keys[rank], until - monotonic())
            ]
            refusal = f"{ranks_text(silent)} went away" if silent else self._refusal(keys)
            self._writer.set("refusal", refusal)
        elif not there(self._writer, "refusal", until - monotonic()):
            raise LaunchError(
                f"rank 0 went away: rank {own} waited {timeout_s:g} s at {self.launched.address}"
            )
        refusal = self._writer.get("refusal").decode()
        if refusal:
            self._remove_directory()
            raise LaunchError(refusal)

    def _refusal(self, keys: Sequence[str]) -> str:
        arrivals = [arrival.from_text(self._writer.get(key).decode()) for key in keys]
        return arrival.refusal(arrivals, self._directory) or ""

    @property
    def all_ranks(self) -> range:
        """All ranks that were started."""
        return range(self.launched.world_size)

    def require(self, world_size: int) -> None:
        """LaunchError where fewer than ``world_size`` ranks were started, or one of them is lost."""
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
        """The LaunchError for an error of the store after all ranks had joined."""
        self._gone = True
        return LaunchError(
            f"no word from the other ranks: the store at {self.launched.address} is gone, and "
            f"probably the process that hosts it ({first_line(error)})"
        )

    @property
    def begun(self) -> Collection[str]:
        """The ids of the tests on ranks that this process has begun."""
        return self._times.keys()

    @property
    def speaks(self) -> bool:
        """Whether this rank reports for all.

        It is rank 0, or all ranks below it are lost, or the store is gone.
        """
        return self._gone or all(rank in self.lost for rank in range(self.launched.rank))

    def times(self, test_id: str) -> int:
        """How often this process has begun that test."""
        return self._times.get(test_id, 0)

    def begin(self, test_id: str) -> OutcomeLog:
        """Begins a test and returns the log for its ranks' outcomes; LaunchError without a store."""
        number = self._times[test_id] = self.times(test_id) + 1
        try:
            self._writer.set(f"at/{self.launched.rank}", test_id)
        except RuntimeError as error:
            raise self.store_gone(error) from None
        return OutcomeLog(self._writer, self._reader, f"log/{test_id}#{number}")

    def rendezvous(self, test_id: str) -> str:
        """The path of the test's rendezvous file, the same for all ranks; makes the file if needed.

        It is in rank 0's temporary directory (TMPDIR), which ranks on several hosts need on a shared file
        system. LaunchError where there is no such directory on this host.
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
        """Waits, at most ``timeout_s`` seconds, until all ranks that are not lost are done.

        A launcher may end all ranks when the first process ends, and the store ends with the process that
        hosts it. Only the first call does anything, and only in the process that joined.
        """
        if os.getpid() != self._owner:
            return
        self._owner = -1
        until = monotonic() + timeout_s
        with suppress(RuntimeError):  # the store is gone, so there is no way to wait
            self._writer.set(f"done/{self.launched.rank}", "")
            self._await("done", until)
            self._writer.set(f"bye/{self.launched.rank}", "")
            if self.launched.rank == 0:
                self._await("bye", until)
        self._remove_directory()

    def _await(self, what: str, until: float) -> None:
        for rank in self.all_ranks:
            if rank not in self.lost:
                asked_for(self._writer, f"{what}/{rank}", until - monotonic(), self.over)

    def _remove_directory(self) -> None:
        if self.launched.rank == 0:
            shutil.rmtree(self._directory, ignore_errors=True)


def first_line(error: BaseException) -> str:
    """The message of an error of torch's without the C++ stack trace below it."""
    return str(error).strip().split("\n", 1)[0]


@dataclass(slots=True)
class _OwnRankSet:
    """This process's rank set, or the error that joining it raised, so that a failed wait is not repeated."""

    made: ExternalRankSet | None = None
    failure: HarnessError | None = None


_kept = PerProcess(_OwnRankSet)


def own_rank_set(
    environ: Mapping[str, str], timeout_s: float, leave_within_s: float, run: UnittestRun | None = None
) -> ExternalRankSet:
    """This process's rank set, which the first call joins with the variables of ``environ``, for the ``run``.

    Joining takes at most ``timeout_s`` seconds; at its end the process waits up to ``leave_within_s`` seconds
    for the other ranks. UsageError or LaunchError where joining fails, the same at each call.
    """
    kept = _kept.get()
    if kept.failure is not None:
        raise kept.failure.with_traceback(None)
    if kept.made is None:
        try:
            kept.made = ExternalRankSet(launcher_environment(environ), timeout_s, run)
        except HarnessError as failure:
            kept.failure = failure
            raise
        atexit.register(kept.made.leave, leave_within_s)
    return kept.made
