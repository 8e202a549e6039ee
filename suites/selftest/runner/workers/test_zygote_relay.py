"""Tests the relay of a zygote with a host that the test plays."""

from __future__ import annotations

import os
import socket
import threading
import unittest

from harness.hosts.agent_session import Link
from harness.hosts.connection import Connection
from harness.hosts.hosts import Host
from harness.hosts.lost_hosts import LostHosts
from harness.hosts.messages import (
    ZYGOTE,
    Claim,
    Claimed,
    Data,
    End,
    ForkWorker,
    Ping,
    StartZygote,
    Stream,
    ZygoteEnded,
)
from harness.hosts.messages import Message as HostMessage
from harness.hosts.messages import decode as decode_of_host
from harness.hosts.messages import encode as encode_of_host
from harness.runner.messages import Fork, Forked, Gone, HostLost, Kill, Load, Message, Ready, decode, encode
from harness.runner.workers.zygote_relay import ZygoteRelay
from harness.wire import framed, recv_frame, send_fds, send_frame, socket_pair

# What only a broken self-test waits.
LONG_S = 300.0
SHIFT_S = -12.5
START = StartZygote({}, {}, [])
ORDER = Fork("1#1", [], "m")


class RelayTest(unittest.TestCase):
    """A relay between the test's two hands: a controller's and a host's."""

    def setUp(self) -> None:
        near, self.host = socket.socketpair()
        self.control, far = socket_pair()
        for end in (self.host, self.control):
            self.addCleanup(end.close)
            end.settimeout(LONG_S)
        link = Link(Host("a", "127.0.0.1", 1, 2, 2), Connection(near), SHIFT_S)
        relay = ZygoteRelay(far, link, LONG_S, LostHosts("/nonexistent/key"))
        thread = threading.Thread(target=relay.run, args=(START,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.control.shutdown, socket.SHUT_RDWR)
        self.assertEqual(self.heard(), START)

    def heard(self) -> HostMessage:
        """What the host hears next, but for pings."""
        while isinstance(message := decode_of_host(recv_frame(self.host) or b""), Ping):
            continue
        return message

    def say(self, *messages: HostMessage) -> None:
        """The host says something."""
        self.host.sendall(b"".join(framed(encode_of_host(message)) for message in messages))

    def zygote_says(self, *messages: Message) -> None:
        """The host's zygote says something."""
        self.say(Data(ZYGOTE, 0, Stream.CHANNEL, b"".join(framed(encode(m)) for m in messages)))

    def told(self) -> Message | None:
        """What the controller is told next; None at the end."""
        frame = recv_frame(self.control)
        return decode(frame) if frame is not None else None

    def fork(self) -> tuple[socket.socket, int, int]:
        """Orders a worker; returns the controller's ends of its channel, output and claim pipe."""
        channel, channel_far = socket_pair()
        channel.settimeout(LONG_S)
        output, output_far = os.pipe()
        stacks, stacks_far = os.pipe()
        claims, claims_far = os.pipe()
        os.set_blocking(claims, False)
        os.write(claims_far, b"..")
        send_frame(self.control, encode(ORDER))
        send_fds(self.control, [channel_far.fileno(), output_far, stacks_far, claims])
        channel_far.close()
        for fd in (output_far, stacks_far, claims_far):
            os.close(fd)
        self.addCleanup(channel.close)
        for fd in (output, stacks, claims):
            self.addCleanup(os.close, fd)
        message = self.heard()
        assert isinstance(message, ForkWorker), message
        self.assertEqual(decode(message.order.encode()), Fork("1#1", [], "m", asks=True))
        return channel, output, claims

    def test_orders(self) -> None:
        """The zygote gets the controller's orders as they are."""
        for order in (Load(["m"], ["/p"]), Kill("1#1", 9, True)):
            send_frame(self.control, encode(order))
            self.assertEqual(self.heard(), Data(ZYGOTE, 0, Stream.CHANNEL, framed(encode(order))))

    def test_ready(self) -> None:
        """``Ready`` comes with the difference of the clocks; process ids of the host are kept back."""
        self.zygote_says(Forked("1#1", 5), Ready())
        self.assertEqual(self.told(), Ready(shift_s=SHIFT_S))

    def test_end_behind_all_bytes(self) -> None:
        """A worker's end is told once the controller can read all that the worker has said."""
        channel, output, _ = self.fork()
        much = b"x" * (1 << 20)
        self.say(Data(1, 0, Stream.OUTPUT, much), Data(1, 0, Stream.CHANNEL, b"frame"))
        self.zygote_says(Gone("1#1", 3, 4))
        self.assertEqual(channel.recv(100), b"frame")
        got = 0
        while got < len(much) // 2:  # a pipe holds less than the other half
            got += len(os.read(output, 4096))
        self.control.settimeout(0.0)
        with self.assertRaises(BlockingIOError):
            self.control.recv(1)
        self.control.settimeout(LONG_S)
        while got < len(much):
            got += len(os.read(output, 65536))
        self.assertEqual(self.told(), Gone("1#1", 3, 4))
        self.assertEqual(self.heard(), End(1))

    def test_claims(self) -> None:
        """A worker gets what the controller has not taken back, and hears when nothing is left."""
        _, _, claims = self.fork()
        self.say(Claim(1))
        self.assertEqual(self.heard(), Claimed(1, True))
        self.assertEqual(os.read(claims, 1), b".")  # the controller takes the other one back
        self.say(Claim(1), Claim(7))
        self.assertEqual([self.heard(), self.heard()], [Claimed(1, False), Claimed(7, False)])

    def test_lost_host(self) -> None:
        """The controller hears that the host is lost, and how, before the relay ends."""
        self.host.close()
        message = self.told()
        assert isinstance(message, HostLost), message
        self.assertIn("host a was lost: ", message.reason)
        self.assertIsNone(self.told())

    def test_wrong_words(self) -> None:
        """A host that says what no host of workers says is lost."""
        self.say(END := End(1))
        message = self.told()
        assert isinstance(message, HostLost), message
        self.assertIn(type(END).__name__, message.reason)

    def test_dead_zygote(self) -> None:
        """The relay ends when the zygote has died."""
        self.say(ZygoteEnded("signal SIGKILL"))
        self.assertIsNone(self.told())


if __name__ == "__main__":
    unittest.main()
