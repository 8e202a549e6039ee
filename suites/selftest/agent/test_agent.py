"""Tests agents with real kills: what becomes of a run when a host, its controller or its network is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

import psutil

from harness.errors import HarnessError
from harness.hosts import key
from harness.hosts.agent_registry import AgentRegistry
from harness.hosts.connection import dial
from harness.hosts.handshake import HandshakeError, Purpose
from harness.hosts.messages import Ping, Pong
from harness.hosts.versions import versions
from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.forked_case import ForkedCase
from suites.selftest.hosts.loopback import ARRIVAL_S, TREE, Loopback, start_agent


class FaultsTest(ForkedCase):
    """Two hosts, and a process of tests in which both ranks wait for ever."""

    def setUp(self) -> None:
        self.hosts = Loopback()
        self.addCleanup(self.hosts.close)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.fifo = os.path.join(directory.name, "waiting")
        os.mkfifo(self.fifo)

    def start(self, *methods: str, **environ: str) -> subprocess.Popen[str]:
        """Starts the tests; returns when both ranks of ``test_waits`` wait."""
        names = [f"suites.selftest.faults.waiting.Waits.{method}" for method in methods]
        where = {**self.hosts.environ, "HARNESS_PLACEMENT": "spread", ANNOUNCE: self.fifo}
        tests = subprocess.Popen(
            [sys.executable, "-m", "unittest", "-v", *names],
            cwd=TREE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HARNESS_TIMEOUT": "300", "HARNESS_GRACE": "0.3", **where, **environ},
        )
        assert tests.stderr is not None
        self.addCleanup(tests.stderr.close)
        self.addCleanup(tests.wait)
        self.addCleanup(tests.kill)
        with os.fdopen(os.open(self.fifo, os.O_RDWR)) as fifo:  # it has no end between the two ranks
            self.ranks = [int(fifo.readline()) for _ in range(2)]
        return tests

    def below(self, number: int) -> list[psutil.Process]:
        """All processes that an agent has started, with itself."""
        agent = psutil.Process(self.hosts.agents[number].pid)
        return [agent, *agent.children(recursive=True)]

    def await_ends(self, processes: list[psutil.Process]) -> None:
        """Waits until the processes have ended."""
        _, alive = psutil.wait_procs(processes, timeout=ARRIVAL_S)
        self.assertEqual(alive, [])

    def test_host_dies(self) -> None:
        """A host that dies is named; its rank has crashed, and the next test runs on the one that is left."""
        tests = self.start("test_waits", "test_passes")
        processes = self.below(1)
        self.hosts.agents[1].kill()
        _, said = tests.communicate()
        self.assertIn("cause: rank 1 crashed: gone without an outcome (host h1 was lost: ", said)
        self.assertRegex(said, r"(?s)test_passes.*?\.\.\. ok")
        self.assertIn("rank 0 on h0, rank 1 on h1", said)
        self.await_ends(processes[1:])

    def test_controller_dies(self) -> None:
        """When the controller is gone, agents kill their ranks and end, with exit code 3."""
        self.start("test_waits")
        processes = [process for number in (0, 1) for process in self.below(number)]
        self.hosts.registry.close(done=False)
        for agent in self.hosts.agents:
            _, said = agent.communicate()
            self.assertEqual(agent.returncode, 3, said)
            self.assertIn(b"the controller of the run is gone", said)
        self.await_ends([process for process in processes if process.pid not in self._agents()])

    def _agents(self) -> set[int]:
        return {agent.pid for agent in self.hosts.agents}

    def test_process_of_tests_dies(self) -> None:
        """When the process of tests is killed, its ranks end on each host, and the agents go on."""
        tests = self.start("test_waits")
        processes = [process for number in (0, 1) for process in self.below(number)[1:]]
        ranks = [process for process in processes if process.pid in self.ranks]
        self.assertEqual(len(ranks), 2)
        tests.kill()
        self.await_ends(ranks)
        self.assertEqual([agent.poll() for agent in self.hosts.agents], [None, None])

    def test_host_says_nothing(self) -> None:
        """A host that says nothing any more, as behind a network that stalls, is lost in the end."""
        tests = self.start("test_waits", HARNESS_HOST_TIMEOUT="5")
        stopped = self.below(1)
        self.addCleanup(lambda: [each.resume() for each in stopped if each.is_running()])
        for process in stopped:
            process.suspend()
        _, said = tests.communicate()
        self.assertRegex(said, r"host h1 was lost: it has said nothing for \d+ s")

    def test_the_end_of_a_run(self) -> None:
        """At the end of a run agents end with exit code 0, and leave no process, port or file behind."""
        tests = self.start("test_waits")
        processes = [process for number in (0, 1) for process in self.below(number)]
        tests.send_signal(signal.SIGINT)
        tests.communicate()
        self.hosts.registry.close(done=True)
        self.assertEqual([agent.wait(ARRIVAL_S) for agent in self.hosts.agents], [0, 0])
        self.await_ends([process for process in processes if process.pid not in self._agents()])
        for host in self.hosts.hosts:
            for port in (host.port, host.store):
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection((host.address, port))


class StrangersTest(unittest.TestCase):
    """Who may not talk to an agent."""

    hosts: Loopback

    @classmethod
    def setUpClass(cls) -> None:
        cls.hosts = Loopback(1)
        cls.addClassCleanup(cls.hosts.close)

    def assert_serves(self) -> None:
        """The agent still serves those who have the key."""
        (host,) = self.hosts.hosts
        connection = dial(host.address, host.port, self.hosts.key, Purpose.SESSION, ARRIVAL_S)
        self.addCleanup(connection.close)
        connection.send(Ping(1.0))
        self.assertIsInstance(connection.receive_one(ARRIVAL_S), Pong)

    def test_wrong_key(self) -> None:
        """Another key, or the key for another purpose, opens nothing."""
        (host,) = self.hosts.hosts
        for secret, purpose in ((b"o" * 64, Purpose.SESSION), (self.hosts.key, Purpose.ARRIVAL)):
            with self.subTest(purpose), self.assertRaises(HandshakeError):
                dial(host.address, host.port, secret, purpose, ARRIVAL_S)
        self.assert_serves()

    def test_garbage_and_flood(self) -> None:
        """Garbage is cut off, and a flood of silent connections keeps nobody out."""
        (host,) = self.hosts.hosts
        flood = [socket.create_connection((host.address, host.port)) for _ in range(300)]
        for sock in flood:
            self.addCleanup(sock.close)
        flood[-1].sendall(os.urandom(1 << 16))
        flood[-1].settimeout(ARRIVAL_S)
        with self.subTest("cut off"), contextlib.suppress(ConnectionResetError):
            self.assertEqual(flood[-1].recv(1), b"")
        self.assert_serves()
        self.assertEqual(len(psutil.Process(self.hosts.agents[0].pid).children()), 2)  # a store and a session

    def test_only_its_address(self) -> None:
        """Agent and store listen on the given address, and on no other."""
        (host,) = self.hosts.hosts
        agent = psutil.Process(self.hosts.agents[0].pid)
        addresses: dict[int, set[str]] = {}
        for process in (agent, *agent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):  # the session of a test before may just end
                for connection in process.net_connections("tcp"):
                    if connection.status == psutil.CONN_LISTEN:
                        addresses.setdefault(connection.laddr.port, set()).add(connection.laddr.ip)
        for port in (host.port, host.store):
            with self.subTest(port):
                self.assertEqual(addresses[port], {host.address})


class ArrivalTest(ForkedCase):
    """Agents that cannot take part."""

    def agent_of(self, registry: AgentRegistry, secret: bytes) -> Callable[[], tuple[int, bytes]]:
        """Starts an agent with a key; the result waits for its end."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "key")
        key.make_file(path, secret.decode())
        agent = start_agent(registry.port, 0, path)
        self.addCleanup(agent.kill)

        def end() -> tuple[int, bytes]:
            _, said = agent.communicate()
            return agent.returncode, said

        return end

    def test_turned_away(self) -> None:
        """An agent of another version, or with another key, ends with exit code 2, and says why."""
        ours = {**versions(TREE), "torch": "another"}
        for secret, says in ((b"k" * 64, b"torch is "), (b"o" * 64, b"another key")):
            said: list[str] = []
            registry = AgentRegistry("127.0.0.1", 0, b"k" * 64, ours, said.append)
            self.addCleanup(registry.close, done=False)
            end = self.agent_of(registry, secret)
            with self.subTest(says):
                with self.assertRaises(HarnessError):
                    registry.wait_for(1, ARRIVAL_S, lambda said=said: not said)  # type: ignore[misc]
                code, text = end()
                self.assertEqual(code, 2, text)
                self.assertIn(says, text)


if __name__ == "__main__":
    unittest.main()
