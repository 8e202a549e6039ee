"""send, recv, isend, irecv and batches of them: who gets what from whom, by tag and by order.

gloo's point-to-point calls move bytes: any dtype goes, nothing is checked against what the peer passed. A
send is complete when the peer has received it, not before.
"""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import communication_check, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.c10d.base import OnSubGroup, gloo_only, instantiate_world_sizes
from suites.c10d.inputs import EVERYTHING, REFUSED, Case, every_case

CASE = Case()
#: Messages of one sender to one receiver, one after the other.
MESSAGES = 5


@needs(Capability.POINT_TO_POINT)
class PointToPoint:
    """Messages between the members of the default group, of every dtype and shape."""

    def pairs(self):
        """Return all (sender, receiver) pairs of members; those that wait for the late member come first."""
        return list(permutations(reversed(self.everyone), 2))

    def message(self, case, sender, receiver):
        """Return what goes from member to member, as a tensor here."""
        return self.on_device(case, case.label(sender, receiver))

    def check_exchange(self, case, sender, receiver, send, receive):
        """Let ``send(tensor, global rank)`` and ``receive(tensor, global rank)`` move one message."""
        with self.cell(send.__name__.removeprefix("i"), case.dtype):
            if self.group_rank == sender:
                send(self.message(case, sender, receiver), self.members[receiver])
            elif self.group_rank == receiver:
                output = case.blank(self.device)
                receive(output, self.members[sender])
                self.same(output, self.message(case, sender, receiver))

    def send(self, tensor, dst):
        self.assertIsNone(dist.send(tensor, dst, group=self.group))

    def recv(self, tensor, src):
        self.assertEqual(dist.recv(tensor, src, group=self.group), src)

    def isend(self, tensor, dst):
        self.assertIs(dist.isend(tensor, dst, group=self.group).wait(), True)

    def irecv(self, tensor, src):
        self.assertIs(dist.irecv(tensor, src, group=self.group).wait(), True)

    def test_send_recv(self):
        for sender, receiver in self.pairs():
            self.check_exchange(CASE, sender, receiver, self.send, self.recv)

    def test_send_recv_every_dtype_and_shape(self):
        cases = [
            case
            for case in every_case(*self.declared((*EVERYTHING, *REFUSED), "send"))
            if not case.transposed
        ]
        for sender, receiver in self.pairs()[:1]:
            for case in cases:
                with self.subTest(case=str(case)):
                    self.check_exchange(case, sender, receiver, self.send, self.recv)

    def test_isend(self):
        for sender, receiver in self.pairs():
            self.check_exchange(CASE, sender, receiver, self.isend, self.recv)

    def test_irecv(self):
        for sender, receiver in self.pairs():
            self.check_exchange(CASE, sender, receiver, self.send, self.irecv)

    def test_send_recv_group_ranks(self):
        for sender, receiver in self.pairs():
            if self.group_rank == sender:
                dist.send(self.message(CASE, sender, receiver), group=self.group, group_dst=receiver)
            elif self.group_rank == receiver:
                output = CASE.blank(self.device)
                dist.recv(output, group=self.group, group_src=sender)
                self.same(output, self.message(CASE, sender, receiver))

    def test_isend_irecv_all_pairs_at_once(self):
        others = [member for member in self.everyone if member != self.group_rank]
        outputs = {sender: CASE.blank(self.device) for sender in others}
        works = [dist.irecv(outputs[peer], self.members[peer], group=self.group) for peer in others]
        for peer in others:
            tensor = self.message(CASE, self.group_rank, peer)
            works.append(dist.isend(tensor, self.members[peer], group=self.group))
        for work in works:
            self.assertIs(work.wait(), True)
            self.assertIs(work.is_completed(), True)
        for sender, output in outputs.items():
            self.same(output, self.message(CASE, sender, self.group_rank))

    @needs(Capability.ANY_SOURCE)
    def test_send_recv_any_source(self):
        for receiver in self.everyone:
            if self.group_rank != receiver:
                self.send(self.message(CASE, self.group_rank, receiver), self.members[receiver])
                continue
            sources = []
            for _ in self.members[1:]:
                output = CASE.blank(self.device)
                sources.append(dist.recv(output, group=self.group))
                self.same(output, self.message(CASE, self.members.index(sources[-1]), receiver))
            self.assertEqual(sorted(sources), [rank for rank in self.members if rank != self.rank])

    @needs(Capability.ANY_SOURCE)
    def test_irecv_any_source(self):
        for receiver in self.everyone:
            if self.group_rank != receiver:
                self.send(self.message(CASE, self.group_rank, receiver), self.members[receiver])
                continue
            outputs = [CASE.blank(self.device) for _ in self.members[1:]]
            works = [dist.irecv(output, group=self.group) for output in outputs]
            self.assertTrue(all(work.wait() for work in works))
            senders = [int(output.flatten()[0]) // 31 for output in outputs]
            self.assertEqual(sorted(senders), [m for m in self.everyone if m != receiver])
            for sender, output in zip(senders, outputs, strict=True):
                self.same(output, self.message(CASE, sender, receiver))

    @needs(Capability.TAGS)
    def test_send_recv_with_tag(self):
        for sender, receiver in self.pairs():
            with self.cell("tags", CASE.dtype):
                self.check_tags(sender, receiver)

    def check_tags(self, sender, receiver):
        """Let four messages go by rising tag, and take them by falling tag."""
        if self.group_rank == sender:
            works = [
                dist.isend(self.message(CASE, sender, tag), self.members[receiver], self.group, tag)
                for tag in range(4)
            ]
            self.assertTrue(all(work.wait() for work in works))
        elif self.group_rank == receiver:
            for tag in reversed(range(4)):
                output = CASE.blank(self.device)
                dist.recv(output, self.members[sender], self.group, tag)
                self.same(output, self.message(CASE, sender, tag))

    def test_order_within_a_tag(self):
        for sender, receiver in self.pairs():
            messages = [torch.tensor([turn + 0.5], device=self.device) for turn in range(MESSAGES)]
            if self.group_rank == sender:
                works = [dist.isend(message, self.members[receiver], self.group) for message in messages]
                self.assertTrue(all(work.wait() for work in works))
            elif self.group_rank == receiver:
                for message in messages:
                    output = torch.zeros_like(message)
                    self.recv(output, self.members[sender])
                    self.same(output, message)

    @gloo_only
    def test_isend_completes_when_received(self):
        # The receiver looks for the message when the sender has seen that it is not complete.
        for sender, receiver in self.pairs():
            where = f"unreceived {self.members[sender]} {self.members[receiver]}"
            if self.group_rank == sender:
                work = dist.isend(self.message(CASE, sender, receiver), self.members[receiver], self.group)
                self.assertIs(work.is_completed(), False)
                self.board.set(where, "seen")
                self.assertIs(work.wait(), True)
                self.assertIs(work.is_completed(), True)
            elif self.group_rank == receiver:
                self.board.get(where)
                output = CASE.blank(self.device)
                self.recv(output, self.members[sender])
                self.same(output, self.message(CASE, sender, receiver))

    @communication_check("off")  # what it sends and what it receives differ on purpose
    @gloo_only
    def test_recv_takes_bytes(self):
        # A shorter message fills the front of the buffer, another dtype shows through as its bytes.
        message = torch.tensor([1.0, -2.0], device=self.device)
        output = torch.full((3,), 7, dtype=torch.int32, device=self.device)
        for sender, receiver in self.pairs()[:1]:
            if self.group_rank == sender:
                self.send(message, self.members[receiver])
            elif self.group_rank == receiver:
                self.recv(output, self.members[sender])
                self.same(output[:2], message.view(torch.int32))
                self.assertEqual(output[2].item(), 7)


class SubGroupPointToPoint(OnSubGroup, PointToPoint):
    """Messages between the members of sub-groups: peers are global ranks unless said to be group ranks."""


@needs(Capability.BATCHES)
class BatchIsendIrecv:
    """Batches of messages, started in one call."""

    def ring(self, tags=(0, 0)):
        """Return (output, operations, expected): send to the next rank, receive from the one before."""
        left, right = (self.rank - 1) % self.world_size, (self.rank + 1) % self.world_size
        output = CASE.blank(self.device)
        operations = [
            dist.P2POp(dist.isend, self.on_device(CASE, CASE.label(self.rank)), right, tag=tags[0]),
            dist.P2POp(dist.irecv, output, left, tag=tags[1]),
        ]
        return output, operations, CASE.label(left)

    def check_batch(self, output, operations, expected):
        works = dist.batch_isend_irecv(operations)
        self.assertEqual(len(works), len(operations))
        for work in works:
            self.assertIs(work.wait(), True)
        self.check(CASE, output, expected)

    def test_batch_isend_irecv_gloo(self):
        self.check_batch(*self.ring())

    def test_batch_isend_irecv_order(self):
        output, operations, expected = self.ring()
        self.check_batch(output, operations[::-1], expected)

    @needs(Capability.TAGS)
    def test_batch_isend_irecv_gloo_tags(self):
        self.check_batch(*self.ring(tags=(self.rank, (self.rank - 1) % self.world_size)))

    def test_batch_isend_irecv_group_peer(self):
        # Where two ranks remain without rank 0, the group ranks are one less.
        members = range(min(1, self.world_size - 2), self.world_size)
        first = members[0]
        group = dist.new_group(list(members), backend=self.backend)
        self.come_last(first, "grouped", members)
        output = CASE.blank(self.device)
        if self.rank == members[-1]:
            op = dist.P2POp(dist.irecv, output, group=group, group_peer=0)
            self.check_batch(output, [op], CASE.label(first))
        elif self.rank == first:
            peer = len(members) - 1
            op = dist.P2POp(dist.isend, self.on_device(CASE, CASE.label(first)), group=group, group_peer=peer)
            self.assertEqual(op.peer, members[-1])
            self.assertIs(dist.batch_isend_irecv([op])[0].wait(), True)

    def test_batch_isend_irecv_op_err(self):
        with self.refused(ValueError, "Expected ``op`` to be of type ``torch.distributed.isend`` or"):
            dist.P2POp(dist.broadcast, CASE.blank(self.device), 0)

    def test_batch_isend_irecv_op_list_err(self):
        message = "Each op is expected to to be of type ``torch.distributed.P2POp``."
        for wrong in ([1], dist.P2POp(dist.isend, CASE.blank(self.device), 1 - self.rank % 2)):
            with self.refused(ValueError, message, wrong=type(wrong).__name__):
                dist.batch_isend_irecv(wrong)

    def test_batch_isend_irecv_mixed_group_err(self):
        group = dist.new_group(backend=self.backend)
        peer = (self.rank + 1) % self.world_size
        tensor = CASE.blank(self.device)
        operations = [dist.P2POp(dist.isend, tensor, peer), dist.P2POp(dist.isend, tensor, peer, group=group)]
        with self.refused(ValueError, "All ops need to use the same group."):
            dist.batch_isend_irecv(operations)


class PointToPointRefusals:
    """Messages that are refused before anything is sent."""

    def test_send_to_oneself(self):
        with self.refused(ValueError, "Invalid destination rank: destination rank should not be the same"):
            dist.send(CASE.blank(self.device), self.rank)
        self.check_group_works()

    def test_isend_and_irecv_with_oneself(self):
        # torch lets these through for the backend to decide; gloo has no connection to itself.
        for call in (dist.isend, dist.irecv):
            with self.refused(RuntimeError, "Pair is not connected", call=call.__name__):
                call(CASE.blank(self.device), self.rank)
        self.check_group_works()

    def test_not_contiguous(self):
        tensor = Case(transposed=True).blank(self.device)
        peer = (self.rank + 1) % self.world_size
        for call in (dist.send, dist.recv, dist.isend, dist.irecv):
            with self.refused(RuntimeError, "input tensor has to be contiguous", call=call.__name__):
                call(tensor, peer)
        self.check_group_works()

    def test_no_peer(self):
        with self.refused(ValueError, "Must specify global_rank or group_rank"):
            dist.send(CASE.blank(self.device))

    def test_two_peers(self):
        for call, peers in ((dist.send, {"dst": 0, "group_dst": 0}), (dist.recv, {"src": 0, "group_src": 0})):
            with self.refused(
                ValueError, "Can't specify both group_rank and global_rank", call=call.__name__
            ):
                call(CASE.blank(self.device), **peers)

    def test_no_tensor(self):
        for call in (dist.send, dist.recv, dist.isend, dist.irecv):
            with self.refused(
                TypeError, "Expected parameter `tensor` of type torch.Tensor", call=call.__name__
            ):
                call([CASE.blank(self.device)], (self.rank + 1) % self.world_size)


instantiate_world_sizes(globals(), PointToPoint, BatchIsendIrecv)
instantiate_world_sizes(globals(), SubGroupPointToPoint, sizes=(3, 4))
instantiate_world_sizes(globals(), PointToPointRefusals, sizes=(2, 3))


if __name__ == "__main__":
    run_tests()
