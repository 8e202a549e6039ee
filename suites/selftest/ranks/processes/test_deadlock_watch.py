"""Tests the watch over ranks that are processes, with real processes that sleep or run and real logs."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import unittest
from dataclasses import replace

from harness.communication import call_log
from harness.communication.call_log import CallLog
from harness.communication_call import Kind, Signature
from harness.ranks.processes.deadlock_watch import (
    MOST_LOOKS_FOR_A_MAJORITY,
    MOST_LOOKS_FOR_OTHERS,
    DeadlockWatch,
    WatchedRank,
)

UNTIL_S = 1e9
BARRIER = Signature("barrier", "0", members=(0, 1), default=True)
SLEEPS = "import signal; print('here', flush=True); signal.pause()"
RUNS = "print('here', flush=True)\nwhile True: pass"
WAITS_FOR_ALARM = f"import signal; signal.signal(signal.SIGALRM, print); {SLEEPS}"
RUNS_UNTIL_A_LINE = """if True:
    import select, signal
    print('here', flush=True)
    while not select.select([0], [], [], 0)[0]:
        pass
    signal.pause()
"""
HAS_A_CHILD = f"import subprocess; subprocess.Popen(['sleep', '600']); {SLEEPS}"


class WatchTest(unittest.TestCase):
    """What ``DeadlockWatch`` finds in looks at a process."""

    def setUp(self) -> None:
        self.watch = DeadlockWatch()
        self.logs: list[CallLog] = []
        self.started: list[subprocess.Popen[str]] = []
        self.files: list[int] = []
        for _ in range(2):
            file = call_log.memory_file()
            self.addCleanup(os.close, file)
            memory = mmap.mmap(file, call_log.LOG_BYTES)
            self.files.append(file)
            self.logs.append(CallLog(memory))

    def process(self, code: str) -> int:
        """Starts a process, and returns its id when it has come as far as ``here``."""
        started = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        self.started.append(started)

        def end() -> None:
            os.killpg(started.pid, 9)
            started.communicate()

        self.addCleanup(end)
        assert started.stdout is not None
        self.assertEqual(started.stdout.readline(), "here\n")
        while code not in (RUNS, RUNS_UNTIL_A_LINE) and _state(started.pid) != "S":
            pass
        return started.pid

    def waits(self, rank: int, signature: Signature = BARRIER) -> None:
        """Has a rank wait in a call."""
        log = self.logs[rank]
        log.begin(log.text(signature), 0, 1, waits=True)

    def look(self, pid: int, *, settled: bool = True, times: int = 3, other: int = 0) -> list[int]:
        """The ranks that the last of so many looks finds stuck.

        Rank 0 is the process; rank 1 is ``other``, which runs, or the same, which may be done.
        """
        ended = settled and not other
        ranks = [
            WatchedRank(0, self.files[0], pid, False),
            WatchedRank(1, self.files[1], other or pid, ended),
        ]
        found = [self.watch.look(ranks, UNTIL_S) for _ in range(times)]
        return [waiting.rank for waiting in found[-1]]

    def test_stuck(self) -> None:
        """A rank that sleeps and waits for one that is done; it is known at the third look."""
        pid = self.process(SLEEPS)
        self.waits(0)
        self.assertEqual(self.look(pid, times=2), [])
        self.assertEqual(self.look(pid, times=1), [0])

    def test_no_proof(self) -> None:
        """A process that runs, may be woken, or is stopped can move."""
        self.waits(0)
        for name, code in (("runs", RUNS), ("alarm", WAITS_FOR_ALARM)):
            with self.subTest(name):
                self.assertEqual(self.look(self.process(code)), [])
        stopped = self.process(SLEEPS)
        os.kill(stopped, 19)
        while _state(stopped) != "T":
            pass
        self.assertEqual(self.look(stopped), [])
        os.kill(stopped, 18)

    def test_help(self) -> None:
        """A process that the rank has started may set a key, and nothing else."""
        pid = self.process(HAS_A_CHILD)
        self.waits(0, Signature("store.get", kind=Kind.STORE, key="k"))
        self.assertEqual(self.look(pid), [])
        self.waits(0)
        self.assertEqual(self.look(pid), [0])

    def test_movement(self) -> None:
        """After each movement of any rank the looks begin anew."""
        pid = self.process(SLEEPS)
        self.waits(0)
        self.assertEqual(self.look(pid, times=2), [])
        self.logs[1].end(self.logs[1].begin(self.logs[1].text(BARRIER), 0, 7))
        self.assertEqual(self.look(pid, times=2), [])
        self.assertEqual(self.look(pid, times=1), [0])

    def test_a_rank_that_is_late_to_sleep(self) -> None:
        """Of ranks in calls that do not match, one that is still awake is proven with the others later."""
        pids = self.process(SLEEPS), self.process(RUNS_UNTIL_A_LINE)
        self.waits(0)
        self.waits(1, Signature("all_reduce", "0", members=(0, 1), default=True))
        self.assertEqual(self.look(pids[0], times=5, other=pids[1]), [])
        stdin = self.started[1].stdin
        assert stdin is not None
        stdin.write("go to sleep\n")
        stdin.flush()
        while _state(pids[1]) != "S":
            pass
        self.assertEqual(self.look(pids[0], times=2, other=pids[1]), [0, 1])

    def test_a_rank_that_does_not_sleep(self) -> None:
        """A rank that stays awake in its call delays the proof for some looks, and is not in it."""
        pids = self.process(SLEEPS), self.process(RUNS)
        self.waits(0)
        self.waits(1, Signature("all_reduce", "0", members=(0, 1), default=True))
        self.assertEqual(self.look(pids[0], times=2 + MOST_LOOKS_FOR_OTHERS, other=pids[1]), [])
        self.assertEqual(self.look(pids[0], times=1, other=pids[1]), [0])

    def test_a_rank_that_computes(self) -> None:
        """A rank that is awake outside of calls delays no proof of others."""
        pids = self.process(SLEEPS), self.process(RUNS)
        self.waits(0, Signature("recv", "0", kind=Kind.RECEIVE, members=(0,), peer=0))
        self.assertEqual(self.look(pids[0], other=pids[1]), [0])

    def test_a_rank_that_decides(self) -> None:
        """A rank that may still come, and on which it depends who is odd, delays the proof for some looks."""
        pid = self.process(SLEEPS)
        self.waits(0, replace(BARRIER, members=(0, 1, 2)))
        both = [WatchedRank(0, self.files[0], pid, False), WatchedRank(1, self.files[1], pid, True)]
        for name, until_s, looks in (
            ("late", UNTIL_S, 2 + MOST_LOOKS_FOR_A_MAJORITY),
            ("at the deadline", 0.0, 2),
        ):
            with self.subTest(name):
                third = WatchedRank(2, self.files[1], pid, False)
                self.watch = DeadlockWatch()
                found = [self.watch.look([*both, third], until_s) for _ in range(looks + 1)]
                self.assertEqual([len(each) for each in found], [0] * looks + [1])

    def test_all_have_come(self) -> None:
        """Ranks that all have begun a collective are under way, however long it takes."""
        pid = self.process(SLEEPS)
        self.waits(0)
        self.waits(1)
        self.assertEqual(self.look(pid, settled=False, times=6), [])


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rpartition(")")[2].split()[0]


if __name__ == "__main__":
    unittest.main()
