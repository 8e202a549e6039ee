"""Tests how agents come to a controller: let in, named apart, turned away by version, and sent home."""

from __future__ import annotations

import contextlib
import threading
import unittest
from collections.abc import Callable

from harness.errors import LaunchError
from harness.hosts.agent_registry import AgentRegistry
from harness.hosts.connection import Connection, HostGone, dial, listen
from harness.hosts.handshake import Purpose
from harness.hosts.messages import Arrived, Goodbye, Message, Ping, TurnedAway, Welcome

KEY = b"k" * 32
OURS = {"torch": "2.13", "Python": "3.11"}
# Seconds. Only a broken self-test waits as long.
LONG_S = 300.0


class AgentRegistryTest(unittest.TestCase):
    """A controller and agents that are threads of this test."""

    def setUp(self) -> None:
        self.said: list[str] = []
        self.registry = AgentRegistry("127.0.0.1", 0, KEY, OURS, self.said.append)
        self.addCleanup(self.registry.close, done=False)

    def come(self, *messages: Message, key: bytes = KEY) -> Callable[[], tuple[Connection, Message]]:
        """Comes as an agent that says these messages; the result waits for the answer."""
        answers: list[tuple[Connection, Message]] = []

        def be_agent() -> None:
            connection = dial("127.0.0.1", self.registry.port, key, Purpose.ARRIVAL, LONG_S)
            self.addCleanup(connection.close)
            for message in messages:
                connection.send(message)
            with contextlib.suppress(HostGone):
                answers.append((connection, connection.receive_one(LONG_S)))

        agent = threading.Thread(target=be_agent)
        agent.start()

        def answer() -> tuple[Connection, Message]:
            agent.join()
            return answers[0]

        return answer

    def arrived(self, name: str, **versions: str) -> Arrived:
        """What an agent says of itself."""
        return Arrived(name, "127.0.0.1", 5, 6, 2, {**OURS, **versions})

    def test_all_come(self) -> None:
        """Agents are welcome; two of one name are told apart; at the end all hear goodbye."""
        answers = [self.come(self.arrived(name)) for name in ("b", "a", "a")]
        hosts = self.registry.wait_for(3, LONG_S)
        self.assertEqual([host.name for host in hosts], ["a", "a#2", "b"])
        connections = []
        for answer in answers:
            connection, message = answer()
            self.assertEqual(message, Welcome())
            connections.append(connection)
        self.registry.close(done=True)
        self.assertEqual([each.receive_one(LONG_S) for each in connections], [Goodbye()] * 3)

    def test_another_version(self) -> None:
        """An agent with other versions hears what differs, and so does who waits for it."""
        answer = self.come(self.arrived("a", torch="2.12"))
        with self.assertRaisesRegex(
            LaunchError, r"host a \(127.0.0.1\) .* torch is 2.12 there and 2.13 here"
        ):
            self.registry.wait_for(1, LONG_S)
        message = answer()[1]
        assert isinstance(message, TurnedAway)
        self.assertIn("torch is 2.12 there", message.reason)
        self.assertNotIn("Python", message.reason)

    def test_no_agent(self) -> None:
        """Who has the key and says something else is told of, and does not count."""
        answer = self.come(Ping(1.0))
        with self.assertRaisesRegex(LaunchError, "0 of 1 hosts came"):
            self.registry.wait_for(1, LONG_S, lambda: not self.said)
        self.assertIn("expected Arrived", self.said[0])
        with self.assertRaises(IndexError):  # there was no answer
            answer()

    def test_too_few(self) -> None:
        """Who waits too long hears who came and who did not."""
        self.come(self.arrived("a"))
        self.registry.wait_for(1, LONG_S)
        with self.assertRaisesRegex(LaunchError, r"1 of 2 hosts came \(a\) within 0 s.*harness.agent"):
            self.registry.wait_for(2, 0.0)

    def test_end(self) -> None:
        """A controller that ends otherwise says nothing, and its agents see the end of the connection."""
        answer = self.come(self.arrived("a"))
        self.registry.wait_for(1, LONG_S)
        self.registry.close(done=False)
        with self.assertRaises(HostGone):
            answer()[0].receive_one(LONG_S)

    def test_taken(self) -> None:
        """An address that cannot be listened on is named."""
        with listen("127.0.0.1") as taken:
            port = taken.getsockname()[1]
            with self.assertRaisesRegex(LaunchError, f"cannot listen on 127.0.0.1:{port}"):
                AgentRegistry("127.0.0.1", port, KEY, OURS, self.said.append)


if __name__ == "__main__":
    unittest.main()
