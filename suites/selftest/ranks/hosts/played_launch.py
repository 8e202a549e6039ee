"""``PlayedLaunch``: a relayed launch whose parent and hosts are the test."""

from __future__ import annotations

import os
import unittest

from harness.communication import call_log
from harness.hosts.loop import Loop
from harness.protocol import Launch, Message, ModuleRef, Signal, decode
from harness.ranks.hosts.relayed_launch import RelayedLaunch
from harness.wire import recv_frame, socket_pair

REQUEST = Launch(ModuleRef("m"), "C", "t", 2, "", {}, "/", [], [])


class PlayedLaunch:
    """Two ranks, on hosts ``a`` and ``b``; ``said`` is what the parent has said."""

    def __init__(self, test: unittest.TestCase) -> None:
        self.loop = Loop()
        test.addCleanup(self.loop.close)
        self.events, far = socket_pair()
        test.addCleanup(self.events.close)
        fds, per_rank = [far.detach()], []
        self.channels, self.outputs, self.stacks, self.logs = [], [], [], []
        for _ in range(2):
            channel, far_channel = socket_pair()
            (output, far_output), (stack, far_stack) = os.pipe(), os.pipe()
            log = call_log.memory_file()
            per_rank.append([far_channel.detach(), far_output, far_stack, os.dup(log)])
            fds += per_rank[-1]
            self.channels.append(channel)
            self.outputs.append(output)
            self.stacks.append(stack)
            self.logs.append(log)
            test.addCleanup(channel.close)
            for fd in (output, stack, log):
                test.addCleanup(os.close, fd)
        self.said: list[tuple[int | None, bytes | Signal | None]] = []
        self.launch = RelayedLaunch(1, REQUEST, fds, per_rank, self.loop)
        test.addCleanup(self.launch.close)

    def place(self) -> None:
        """Puts each rank on its host."""
        self.launch.place(["a", "b"], lambda launch, rank, what: self.said.append((rank, what)))

    def begin(self) -> Message | None:
        """Has both hosts start their rank; returns what the parent hears."""
        for host, pid in (("b", 11), ("a", 10)):
            self.launch.began(host, [pid], {"a": 0.5, "b": -0.5})
        return self.hear()

    def hear(self) -> Message | None:
        """The next message that the parent gets; None at the end."""
        frame = recv_frame(self.events)
        return decode(frame) if frame is not None else None
