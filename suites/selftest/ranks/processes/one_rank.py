"""``RankCase`` starts one rank process for a self-test, as a server does, and plays its parent."""

from __future__ import annotations

import atexit
import dataclasses
import mmap
import os
import select
import signal
import socket
import sys
from typing import Any

from harness.communication import call_log
from harness.outcomes import RankOutcome, Status
from harness.protocol import Assignment, Launch, Release, RepeatLaunch, Report, encode, expect
from harness.ranks.processes import module_import
from harness.ranks.processes.channel import RankChannel
from harness.ranks.processes.fork_server import fork_rank
from harness.ranks.processes.server import StartRank
from harness.ranks.result import RankResult
from harness.system import posix
from harness.wire import recv_frame, send_frame
from suites.selftest.faults.clean import CleanTestCase

# Seconds for a rank to get somewhere; only a broken test waits this long.
ARRIVAL_S = 300.0
# The exit code of a forked rank that returned to the code that forked it.
RETURNED = 99
# The environment variable that a test leaves set in its rank.
LEFT = "SELFTEST_LEFT"


class Body:
    """The test class of the ranks, with the one method that a rank calls; each test is a method of it."""

    @classmethod
    def _run(cls, rank: int, method: str, file_name: str, pipe: RankChannel, **options: Any) -> None:
        getattr(cls(), method)(pipe, file_name, **options)

    def passes(self, pipe: RankChannel, file_name: str) -> None:
        """Passes."""
        pipe.record(RankResult(Status.PASSED))

    def skips(self, pipe: RankChannel, file_name: str) -> None:
        """Records that the test was skipped."""
        pipe.record(RankResult(Status.SKIPPED, skip_reason="not today"))

    def fails(self, pipe: RankChannel, file_name: str) -> None:
        """Raises what a failed assertion raises."""
        raise AssertionError("no")

    def interrupts(self, pipe: RankChannel, file_name: str) -> None:
        """Raises an exception that is no ``Exception``."""
        raise KeyboardInterrupt

    def forgets(self, pipe: RankChannel, file_name: str) -> None:
        """Records no result."""

    def exits(self, pipe: RankChannel, file_name: str) -> None:
        """Ends by a SystemExit."""
        sys.exit(7)

    def prints(self, pipe: RankChannel, file_name: str, **options: Any) -> None:
        """Prints what the rank was given, in an unfinished line, and passes."""
        print(file_name, options, end="")
        self.passes(pipe, file_name)

    def uses_streams(self, pipe: RankChannel, file_name: str) -> None:
        """Writes to each standard stream in turn."""
        print("a")
        print("b", file=sys.stderr)
        print("c", file=sys.__stdout__)
        print("d", file=sys.__stderr__)
        print("\udcff", end="")
        self.passes(pipe, file_name)

    def waits(self, pipe: RankChannel, file_name: str) -> None:
        """Prints the rank's process id and waits for ever."""
        print(os.getpid())
        while True:
            signal.pause()

    def looks_at_exit(self, pipe: RankChannel, file_name: str) -> None:
        """Prints, when the rank ends, whether the file exists."""
        atexit.register(lambda: print(os.path.exists(file_name), end=""))
        self.passes(pipe, file_name)

    def leaves_variable(self, pipe: RankChannel, file_name: str) -> None:
        """Leaves an environment variable."""
        os.environ[LEFT] = "1"
        self.passes(pipe, file_name)

    def prints_variable(self, pipe: RankChannel, file_name: str) -> None:
        """Prints the environment variable."""
        print(os.environ.get(LEFT))
        self.passes(pipe, file_name)

    def prints_current_test(self, pipe: RankChannel, file_name: str) -> None:
        """Prints how pytest names the test that runs."""
        print(os.environ[module_import.CURRENT_TEST])
        self.passes(pipe, file_name)

    def counts_threads(self, pipe: RankChannel, file_name: str) -> None:
        """Prints the number of intra-op threads."""
        print(sys.modules["torch"].get_num_threads())
        self.passes(pipe, file_name)


class Another(Body):
    """A second test class of the same module, whose one method does something else."""

    def passes(self, pipe: RankChannel, file_name: str) -> None:
        """Prints the class's name and passes."""
        print("Another", end="")
        super().passes(pipe, file_name)


def launch(method: str, **changes: Any) -> Launch:
    """Returns a request for one rank that runs a method of ``Body``."""
    request = Launch(
        module=module_import.reference(Body.__module__),
        qualname="Body",
        method=method,
        world_size=1,
        file_name="file",
        environ=dict(os.environ),
        cwd=os.getcwd(),
        sys_path=list(sys.path),
        argv=list(sys.argv),
    )
    return dataclasses.replace(request, **changes)


class RankCase(CleanTestCase):
    """Tests with one rank; the parent's ends are ``channel``, ``output``, ``stack`` and ``log``."""

    def setUp(self) -> None:
        super().setUp()
        self.ended: set[int] = set()

    def start(self, request: Launch, start_rank: StartRank = fork_rank, **changes: Any) -> None:
        """Starts the rank; ``changes`` are fields of its assignment."""
        self.channel, channel = socket.socketpair()
        self.channel.settimeout(ARRIVAL_S)
        self.output, output = os.pipe()
        self.stack, stack = os.pipe()
        memory = call_log.memory_file()
        self.log = mmap.mmap(memory, call_log.LOG_BYTES)
        self.addCleanup(self.log.close)
        own = (self.channel.fileno(), self.output, self.stack)
        given = {"channel": channel.detach(), "output": output, "stack": stack, "log": memory}
        assignment = Assignment(0, request, **given, server_pid=os.getpid())
        self.pid = start_rank(dataclasses.replace(assignment, **changes), own)
        if self.pid == 0:
            os._exit(RETURNED)  # otherwise this self-test would run twice
        self.addCleanup(self.end, self.pid)
        for fd in given.values():
            os.close(fd)
        for fd in own[1:]:
            self.addCleanup(os.close, fd)
        self.addCleanup(self.channel.close)

    def end(self, pid: int) -> None:
        """Kills a process that was started, if its test has failed before the process ended."""
        if pid not in self.ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def exit_code(self) -> int:
        """Waits for the process that was started; returns its exit code, negative for a signal."""
        self.assertEqual(posix.still_running([self.pid], ARRIVAL_S), [])
        self.ended.add(self.pid)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def send(self, message: Launch | RepeatLaunch | Release) -> None:
        """Sends a message to the rank."""
        send_frame(self.channel, encode(message))

    def outcome(self) -> RankOutcome:
        """Waits for the rank's report."""
        return expect(recv_frame(self.channel), Report).outcome

    def read(self, fd: int, until: bytes | None = None) -> str:
        """Returns what the rank wrote to a descriptor, up to some bytes or else to its end."""
        found = b""
        while until is None or until not in found:
            readable, _, _ = select.select([fd], [], [], ARRIVAL_S)
            self.assertTrue(readable, f"no more than {found!r}")
            data = os.read(fd, 1 << 16)
            if not data:
                break
            found += data
        return found.decode()
