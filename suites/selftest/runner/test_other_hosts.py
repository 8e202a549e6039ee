"""Tests runs whose one queue is shared by this host and another one, an agent of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

import psutil

from harness.hosts.hosts import Host, from_text, to_text
from harness.hosts.key import new_key
from harness.hosts.lost_hosts import LostHosts
from harness.runner.interrupts import Interrupts
from harness.runner.other_hosts import OtherHosts
from harness.runner.scheduling.schedule import Capacity
from harness.runner.scheduling.shared_capacity import HostCapacity, SharedCapacity
from harness.runner.scheduling.unit import Demand, of_id
from harness.runner.workers.events import HostReady, HostUnusable, ZygoteGone
from harness.runner.workers.workers import Workers
from harness.settings import EnvVar
from harness.targets.device_set import DeviceSet
from suites.selftest.hosts.loopback import TREE, Loopback
from suites.selftest.runner.runs import PATIENCE_S, Finished, RunnerCase

# The first test on the other host and one on this host wait for each other; what the first does then follows.
MEETS = """
def meet(self, on_other):
    if os.path.exists("met"):
        return
    if os.environ.get("HOSTNAME") != "other":
        open("fifo").close()
        return
    open("met", "w").close()
    open("fifo", "w").close()
    on_other()

class T(unittest.TestCase):
    def act(self):
        meet(self, {act})
    test_1 = test_2 = test_3 = test_4 = test_5 = test_6 = act
"""
# An agent that sleeps has passed on all that this process has said: one with something to read would not.
KILL_AGENT = """
def kill_agent():
    import psutil
    agent = psutil.Process(int(open("agent").read()))
    while agent.status() != psutil.STATUS_SLEEPING:
        os.sched_yield()
    agent.kill()
    threading.Event().wait()
"""
# No batch has two tests, and no host runs two at once.
OWN, OTHERS = DeviceSet(("0", "1"), "MY_DEVICES"), DeviceSet(("6", "7"), "MY_DEVICES")
NO_KEY = {EnvVar.KEY_FILE: "/nonexistent/key"}
WORDS = ("--isolate", "-j", "1", "-v")


class SharedRunCase(RunnerCase):
    """Runs over this host and host "other", whose agent the test starts."""

    def setUp(self) -> None:
        super().setUp()
        os.mkfifo(self.directory / "fifo")

    def start_agent(self, **own: str) -> tuple[subprocess.Popen[bytes], str, dict[str, str]]:
        """The agent, with variables of its own; where its controller has to listen; variables for both."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            where = f"127.0.0.1:{listener.getsockname()[1]}"
        variables = {EnvVar.KEY: new_key(), "HOSTNAME": "here"}
        words = [where, "--name", "other", "--address", "127.0.0.12", "--wait", f"{PATIENCE_S}"]
        agent = subprocess.Popen(
            [sys.executable, "-m", "harness.agent", *words],
            cwd=self.directory,
            env={**self.environ(**variables), "HOSTNAME": "other", "PYTHONPATH": str(TREE), **own},
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        return agent, where, variables

    def run_shared(self, *words: str) -> tuple[Finished, subprocess.Popen[bytes]]:
        """A run over both hosts, and the agent."""
        agent, where, variables = self.start_agent()
        (self.directory / "agent").write_text(str(agent.pid))
        return self.run_tests("--hosts", f"2@{where}", *WORDS, *words, **variables), agent

    @staticmethod
    def hosts(run: Finished) -> list[str]:
        """The host of each test, in order."""
        return [str(record.extra["host"]) for record in run.records]


class OneQueueTest(SharedRunCase):
    """What both hosts do with whole tests."""

    def test_both_hosts(self) -> None:
        """Tests run on both at once, in one journal, and each says where; a test's output is its own."""
        self.write("test_m", MEETS.format(act="lambda: (print('from there'), self.fail('mine'))"))
        run, agent = self.run_shared("test_m")
        self.assertEqual(run.code, 1, run.out + run.err)
        self.assertEqual(agent.wait(PATIENCE_S), 0)
        self.assertEqual(len(run.records), 6)
        failed = [record for record in run.records if not record.ok]
        self.assertEqual([(r.extra["host"], r.output) for r in failed], [("other", "from there\n")])
        self.assertIn("AssertionError: mine", failed[0].details)
        self.assertTrue(failed[0].worker.endswith("@other"), failed[0].worker)
        self.assertNotEqual(set(self.hosts(run)), {"other"})
        again = self.run_tests("--last-failed")  # what failed there passes here: it is not the first any more
        self.assertEqual((again.code, len(again.records)), (0, 1), again.out)

    def test_timeout(self) -> None:
        """A test that hangs on the other host times out there with its stack."""
        self.write(
            "test_m",
            MEETS.format(act="lambda: self.hang()")
            + "    def hang(self): threading.Event().wait()\n"
            + "    def test_0(self): pass\n",
        )
        run, _ = self.run_shared("test_m", "--timeout", "20")  # the others have to meet in that
        bad = [record for record in run.records if not record.ok]
        self.assertEqual([(r.status.value, r.extra["host"]) for r in bad], [("timed out", "other")], run.out)
        self.assertIn("in hang", bad[0].details)
        self.assertEqual(len(run.records), 7)

    def test_crash(self) -> None:
        """A crash on the other host is told with its signal."""
        self.write("test_m", MEETS.format(act="lambda: os.kill(os.getpid(), signal.SIGSEGV)"))
        run, _ = self.run_shared("test_m")
        bad = [record for record in run.records if not record.ok]
        self.assertEqual([(r.status.value, r.extra["host"]) for r in bad], [("crashed", "other")], run.out)
        self.assertIn("SIGSEGV", bad[0].reason)

    def test_lost_host(self) -> None:
        """The test on a host that is lost is an error with the host's name; others run elsewhere."""
        self.write("test_m", KILL_AGENT + MEETS.format(act="kill_agent"))
        run, agent = self.run_shared("test_m")
        self.assertEqual(agent.wait(PATIENCE_S), -signal.SIGKILL)
        self.assertEqual(sorted(r.status.value for r in run.records), ["error", *5 * ["passed"]], run.out)
        bad = next(record for record in run.records if not record.ok)
        self.assertIn("host other was lost", bad.reason)
        self.assertEqual(run.code, 1)

    def test_lost_zygote(self) -> None:
        """A test that kills the zygote of the other host runs again."""
        self.write("test_m", MEETS.format(act="lambda: os.kill(os.getppid(), signal.SIGKILL)"))
        run, _ = self.run_shared("test_m")
        self.assertEqual(run.statuses, {f"test_{n}": "passed" for n in range(1, 7)}, run.out + run.err)
        self.assertIn("host other: the process that forks workers died", run.out)

    def test_resumed(self) -> None:
        """A run that was killed with its controller goes on from its journal, and its agent has ended."""
        self.write("test_m", MEETS.format(act="lambda: os.kill(int(open('controller').read()), 9)"))
        agent, where, variables = self.start_agent()
        controller = subprocess.Popen(
            self.command("--hosts", f"2@{where}", *WORDS, "test_m"),
            cwd=self.directory,
            env=self.environ(**variables),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        (self.directory / "controller").write_text(str(controller.pid))
        self.assertEqual(controller.wait(PATIENCE_S), -signal.SIGKILL)
        self.assertEqual(agent.wait(PATIENCE_S), 3)
        run = self.run_tests("--resume")
        self.assertEqual(run.code, 0, run.out + run.err)
        self.assertEqual(set(run.statuses), {f"test_{n}" for n in range(1, 7)})


class StalledTest(unittest.TestCase):
    """A host whose processes are all stopped for a while."""

    def setUp(self) -> None:
        self.undo = contextlib.ExitStack()
        self.addCleanup(self.undo.close)
        self.loopback = self.undo.enter_context(Loopback(1))
        self.workers = self.undo.enter_context(Workers(self.undo.enter_context(Interrupts())))
        other = self.loopback.hosts[0]
        shared = SharedCapacity(
            (HostCapacity("", Capacity(2), 2, there=True), HostCapacity(other.name, Capacity(2), 2))
        )
        own = Host("own", "127.0.0.1", 1, 1, 2, own=True)
        environ = {**os.environ, **self.loopback.environ, EnvVar.HOST_TIMEOUT: "2"}
        self.hosts = self.undo.enter_context(
            OtherHosts((own, other), shared, environ, sys.path, [], DeviceSet(), "cpu")
        )
        self.notices: list[str] = []

    def await_event(self, kind: type[HostReady] | type[ZygoteGone]) -> None:
        """Waits for the next event of a kind, and has the hosts heed all."""
        seen = False
        until_s = time.monotonic() + PATIENCE_S
        while not seen:
            self.assertLess(time.monotonic(), until_s, self.notices)
            for event in self.workers.wait(time.monotonic() + 0.1):
                assert isinstance(event, HostReady | HostUnusable | ZygoteGone), event
                self.hosts.heed(event, self.workers, self.notices.append)
                seen = seen or isinstance(event, kind)
            self.hosts.look_for_lost(self.workers, self.notices.append)

    def test_lost_and_found(self) -> None:
        """It is told once that it was lost, asked again, and in use when it answers."""
        self.undo.enter_context(mock.patch("harness.runner.other_hosts.AGAIN_S", 0.0))
        self.hosts.begin([], self.workers)
        self.await_event(HostReady)
        agent = psutil.Process(self.loopback.agents[0].pid)
        stopped = [agent, *agent.children(recursive=True)]
        self.addCleanup(lambda: [process.resume() for process in stopped if process.is_running()])
        for process in stopped:
            process.suspend()
        for _ in range(2):  # the second is of the first that has asked it again
            self.await_event(ZygoteGone)
            self.assertFalse(self.hosts.is_there("h0"))
        self.assertEqual(len(self.notices), 1)
        self.assertRegex(
            self.notices[0], r"^host h0 was lost: it has said nothing for \d+ s; tests run on the"
        )
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):  # the agent goes on first, and may have ended it
                process.resume()
        self.await_event(HostReady)
        self.assertEqual(self.notices[1:], ["host h0 answers again, and tests run there again"])
        self.assertTrue(self.hosts.is_there("h0"))

    def test_lost_by_a_process_of_tests(self) -> None:
        """What such a process finds out about a host is told once, and that the next one finds it again."""
        known = LostHosts(self.loopback.environ[EnvVar.KEY_FILE])
        known.note("h0", "host h0 was lost: it is silent")
        for _ in range(2):
            self.hosts.look_for_lost(self.workers, self.notices.append)
        self.assertEqual(len(self.notices), 1)
        known.answers("h0")
        self.hosts.look_for_lost(self.workers, self.notices.append)
        self.assertEqual(self.notices[1:], ["host h0 answers again, and tests run there again"])


class VariablesTest(unittest.TestCase):
    """Which workers know of the other hosts."""

    def test_table(self) -> None:
        """Those alone whose tests span hosts."""
        shared = SharedCapacity(
            (HostCapacity("", Capacity(2), 2, there=True), HostCapacity("b", Capacity(2), 2))
        )
        own, other = Host("a", "::1", 1, 2, 2, own=True), Host("b", "::1", 3, 4, 2)
        hosts = OtherHosts((own, other), shared, NO_KEY, [], [], OWN, "mine")
        alone, both = {EnvVar.HOSTS: ""}, {EnvVar.HOSTS: to_text([own, other])}
        for ranks, least, expected in ((1, 1, alone), (2, 1, alone), (2, 2, both), (3, 1, both)):
            with self.subTest(ranks=ranks, least=least):
                unit = of_id("m.T.t", "m", demand=Demand(ranks=ranks, hosts=least))
                self.assertEqual(hosts.variables([unit], 1, ""), expected)
        self.assertEqual((hosts.is_there(""), hosts.is_there("b")), (True, False))

    def test_accelerators(self) -> None:
        """Tests wait for hosts that may have what they need; then a host takes one rank an accelerator."""
        own = HostCapacity("", Capacity(8, accelerators=2), 8, there=True)
        shared = SharedCapacity((own, HostCapacity("b", Capacity(8), 8)))
        pair = (Host("a", "::1", 1, 2, 8, own=True), Host("b", "::1", 3, 4, 8))
        hosts, notices = OtherHosts(pair, shared, NO_KEY, [], [], OWN, "mine"), list[str]()
        unit = of_id("m.T.t", "m", demand=Demand(ranks=4, accelerators=4))
        small = of_id("m.T.s", "m", demand=Demand(ranks=2, accelerators=2))
        self.assertEqual((hosts.awaited([small]), hosts.awaited([small, unit])), (False, True))
        with Interrupts() as interrupts, Workers(interrupts) as workers:
            hosts.heed(HostReady("b", OTHERS), workers, notices.append)
            self.assertFalse(hosts.awaited([unit]))
            found = from_text(hosts.variables([unit], 1, "")[EnvVar.HOSTS])
            self.assertEqual([(host.slots, host.accelerators) for host in found], [(2, 2), (2, 2)])
            fresh = OtherHosts(pair, shared, NO_KEY, [], [], OWN, "mine")
            fresh.heed(HostUnusable("b", "no driver"), workers, notices.append)
        self.assertFalse(fresh.awaited([unit]))
        self.assertEqual(
            (fresh.left_out([small]), len(fresh.left_out([unit])), hosts.left_out([unit])), ([], 1, [])
        )
        self.assertIn(
            "on 4 ranks, each on an accelerator, since mine on all hosts has room for 2",
            fresh.left_out([unit])[0],
        )
        self.assertEqual(notices, ["host b runs no whole tests: no driver"])

    def test_devices(self) -> None:
        """Batches on a host have devices of that host, and one that spans hosts has the free ones of each."""
        three = DeviceSet(("5", "6", "7"), "MY_DEVICES")
        own = HostCapacity("", Capacity(8, accelerators=2), 8, there=True)
        shared = SharedCapacity((own, HostCapacity("b", Capacity(8), 8)))
        pair = (Host("a", "::1", 1, 2, 8, own=True), Host("b", "::1", 3, 4, 8))
        hosts = OtherHosts(pair, shared, NO_KEY, [], [], OWN, "mine")
        one = of_id("m.T.o", "m", demand=Demand(ranks=1, accelerators=1))
        four = of_id("m.T.f", "m", demand=Demand(ranks=4, accelerators=4))
        with Interrupts() as interrupts, Workers(interrupts) as workers:
            hosts.heed(HostReady("b", three), workers, print)
        self.assertEqual(hosts.variables([one], 1, "b"), {EnvVar.HOSTS: "", "MY_DEVICES": "5"})
        self.assertEqual(hosts.variables([one], 2, ""), {EnvVar.HOSTS: "", "MY_DEVICES": "0"})
        hosts.give_back(2)
        spanning = hosts.variables([four], 3, "")
        self.assertEqual(spanning["MY_DEVICES"], "1,0")
        found = from_text(spanning[EnvVar.HOSTS])
        self.assertEqual(
            [(h.slots, h.accelerators, h.visible) for h in found], [(2, 2, "1,0"), (2, 2, "6,7")]
        )
        hosts.give_back(1)
        hosts.give_back(3)
        self.assertEqual(hosts.variables([one], 4, "b")["MY_DEVICES"], "5")


if __name__ == "__main__":
    unittest.main()
