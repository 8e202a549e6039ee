"""What a backend is asked for by calls of ``torch.distributed``: method, tensors, root, operation, handle.

One process is rank 1 of 3 in a group that only notes what it is asked: no answer depends on other ranks.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed.distributed_c10d import _coalescing_manager

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.c10d.noting import RANK, SIZE, TIMEOUT, NotingTestCase, collectives, rows

#: The members of a group of two, in which this rank has another number than in the group of all.
PAIR = [1, 2]
OPTIONS = ("reduceOp", "rootRank", "rootTensor", "asyncOp", "timeout", "device_ids", "device")


class AskedOfBackendsTest(NotingTestCase):
    """One process that takes the group's word for the others."""

    def check_options(self, options, expected):
        found = {name: getattr(options, name) for name in OPTIONS if hasattr(options, name)}
        for name, value in expected.items():
            self.assertEqual(found[name], value, name)

    def check_same(self, found, expected):
        """The very tensors, in lists of the same lengths; numbers are compared."""
        self.assertEqual(len(found), len(expected))
        for one, wanted in zip(found, expected, strict=True):
            if isinstance(wanted, list):
                self.check_same(one, wanted)
            elif isinstance(wanted, torch.Tensor):
                self.assertIs(one, wanted)
            else:
                self.assertEqual(one, wanted)

    def test_made_with(self):
        """The group is made with what the caller gave, and a later one with its own number and time limit."""
        later = dist.new_group(PAIR, timeout=timedelta(seconds=7))
        found = [tuple(each[1:]) for each in self.made]
        self.assertEqual(found, [(RANK, SIZE, TIMEOUT), (0, 2, timedelta(seconds=7))])
        self.assertEqual((dist.get_rank(later), dist.get_world_size(later)), (0, 2))
        self.assertIs(dist.new_group([0, 2]), dist.GroupMember.NON_GROUP_MEMBER)
        self.assertEqual(len(self.made), 2)

    def test_collectives(self):
        """Asked once, with the caller's tensors; waited for once, or never where a handle was asked for."""
        for name, (method, tensors, call, options) in collectives().items():
            for async_op in (False, True):
                for group in ({}, {"group": self.group}):
                    with self.subTest(name, async_op=async_op, **group):
                        self.group.calls.clear()
                        returned = call(async_op=async_op, **group)
                        ((asked, args),) = self.group.calls
                        self.assertEqual(asked, method)
                        self.check_same(args[:-1], tensors)
                        self.check_options(args[-1], {**options, "asyncOp": async_op})
                        self.assertEqual(returned is None, not async_op)
                        self.assertEqual(self.group.handle.waits, 0 if async_op else 1)
                        if async_op:
                            returned.wait()
                            self.assertEqual(self.group.handle.waits, 1)

    def test_complex_numbers(self):
        """A backend sees the same memory as twice as many real numbers."""
        one, whole = rows(2, torch.complex64), rows(6, torch.complex64)
        parts = [rows(2, torch.complex64) for _ in range(SIZE)]
        for call, tensors in (
            (lambda: dist.all_reduce(one), [one]),
            (lambda: dist.broadcast(one, 0), [one]),
            (lambda: dist.all_gather(parts, one), [*parts, one]),
            (lambda: dist.all_gather_into_tensor(whole, one), [whole, one]),
            (lambda: dist.scatter(one, parts, RANK), [one, *parts]),
            (lambda: dist.all_to_all_single(whole, whole), [whole, whole]),
            (lambda: dist.all_to_all(parts, parts), [*parts, *parts]),
        ):
            self.group.calls.clear()
            call()
            ((asked, args),) = self.group.calls
            found = torch.utils._pytree.tree_leaves(args[:-1])
            with self.subTest(asked):
                self.assertEqual(
                    len([each for each in found if isinstance(each, torch.Tensor)]), len(tensors)
                )
                for real, given in zip(found, tensors, strict=False):
                    self.assertEqual(real.dtype, torch.float32)
                    self.assertEqual(real.data_ptr(), given.data_ptr())
                    self.assertEqual(real.shape, (*given.shape, 2))

    def test_operations_that_complex_numbers_have_not(self):
        one = rows(2, torch.complex64)
        for op in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
            for call in (
                lambda op=op: dist.all_reduce(one, op),
                lambda op=op: dist.all_reduce_coalesced([one], op),
            ):
                self.group.calls.clear()
                with self.subTest(op), self.assertRaisesRegex(ValueError, "not support.* on complex tensors"):
                    call()
                self.assertEqual(self.group.calls, [])
        for op in (ReduceOp.SUM, ReduceOp.AVG):
            dist.all_reduce(one, op)
        self.assertEqual(len(self.group.calls), 2)

    def test_roots_of_a_pair(self):
        """A backend counts ranks within the group, whatever way the caller names the root."""
        pair = dist.new_group(PAIR)
        one, parts = rows(), [rows(), rows()]
        for root, expected in (
            ({"src": 2}, 1),
            ({"group_src": 1}, 1),
            ({"src": 1}, 0),
            ({"group_src": 0}, 0),
        ):
            with self.subTest(**root):
                pair.calls.clear()
                dist.broadcast(one, group=pair, **root)
                dist.scatter(one, None if expected else parts, group=pair, **root)
                for _, args in pair.calls:
                    self.check_options(args[-1], {"rootRank": expected})
        for root, expected in (
            ({"dst": 2}, 1),
            ({"group_dst": 1}, 1),
            ({"dst": 1}, 0),
            ({"group_dst": 0}, 0),
        ):
            with self.subTest(**root):
                pair.calls.clear()
                dist.reduce(one, group=pair, **root)
                dist.gather(one, None if expected else parts, group=pair, **root)
                for _, args in pair.calls:
                    self.check_options(args[-1], {"rootRank": expected})
        self.assertEqual(self.group.calls, [])

    def test_coalesced(self):
        """Several tensors in one question; a handle is a future, which this group has not."""
        several, lists = [rows(), rows() + 1], [[rows(), rows()] for _ in range(SIZE)]
        for method, tensors, call, options in (
            (
                "allreduce_coalesced",
                (several,),
                lambda **k: dist.all_reduce_coalesced(several, ReduceOp.MIN, **k),
                {"reduceOp": ReduceOp.MIN},
            ),
            (
                "allgather_coalesced",
                (lists, several),
                lambda **k: dist.all_gather_coalesced(lists, several, **k),
                {},
            ),
        ):
            for async_op in (False, True):
                self.group.calls.clear()
                with self.subTest(method, async_op=async_op):
                    if async_op:
                        self.assertRaisesRegex(RuntimeError, "getFuture", call, async_op=True)
                    else:
                        self.assertIsNone(call())
                    self.assertEqual(self.group.handle.waits, 0 if async_op else 1)
                    ((asked, args),) = self.group.calls
                    self.assertEqual(asked, method)
                    self.check_same(args[:-1], tensors)
                    self.check_options(args[-1], {**options, "asyncOp": async_op})

    def test_collected_calls(self):
        """Calls of one kind in a coalescing region are asked for together when it ends."""
        several, wholes = [rows(), rows() + 1], [rows(6), rows(6) + 1]
        for async_ops in (False, True):
            for name, call, method, tensors, options in (
                (
                    "all_reduce",
                    lambda: [dist.all_reduce(each, ReduceOp.MAX) for each in several],
                    "allreduce_coalesced",
                    (several,),
                    {"reduceOp": ReduceOp.MAX},
                ),
                (
                    "all_gather",
                    lambda: [dist.all_gather_into_tensor(w, s) for w, s in zip(wholes, several, strict=True)],
                    "all_gather_single_coalesced",
                    (wholes, several),
                    {},
                ),
                (
                    "reduce_scatter",
                    lambda: [
                        dist.reduce_scatter_tensor(s, w, ReduceOp.MAX)
                        for w, s in zip(wholes, several, strict=True)
                    ],
                    "reduce_scatter_single_coalesced",
                    (several, wholes),
                    {"reduceOp": ReduceOp.MAX},
                ),
            ):
                self.group.calls.clear()
                with self.subTest(name, async_ops=async_ops):
                    with _coalescing_manager(async_ops=async_ops) as manager:
                        call()
                        self.assertEqual(self.group.calls, [])
                    ((asked, args),) = self.group.calls
                    self.assertEqual(asked, method)
                    self.check_same(args[: len(tensors)], tensors)
                    # Before torch 2.12 options of an all_gather are made and not handed over.
                    if name != "all_gather" or torch_at_least("2.12"):
                        self.check_options(args[-1], {**options, "asyncOp": async_ops})
                    self.assertEqual(self.group.handle.waits, 0 if async_ops else 1)
                    if async_ops:
                        self.assertEqual(manager.works, [self.group.handle])
                        manager.wait()
                        self.assertEqual(self.group.handle.waits, 1)

    def test_nothing_to_collect(self):
        """A region without calls asks for nothing, and there is nothing to wait for."""
        for async_ops in (False, True):
            with _coalescing_manager(async_ops=async_ops) as manager:
                pass
            manager.wait()
            self.assertEqual((manager.works, self.group.calls), ([], []))

    def test_messages(self):
        """Peers are counted within the group; a number that tells messages apart comes as it is."""
        pair, one = dist.new_group(PAIR), rows()
        for group, peers in ((pair, ({"global": 2}, 1)), (self.group, ({"global": 2}, 2))):
            other, expected = peers[0]["global"], peers[1]
            for call, method in (
                (lambda **k: dist.send(one, **k), "send"),
                (lambda **k: dist.isend(one, **k), "send"),
                (lambda **k: dist.recv(one, **k), "recv"),
                (lambda **k: dist.irecv(one, **k), "recv"),
            ):
                way = "dst" if method == "send" else "src"
                for named in ({way: other}, {f"group_{way}": expected}):
                    group.calls.clear()
                    returned = call(group=group, tag=5, **named)
                    with self.subTest(method, size=group.size(), **named):
                        ((asked, args),) = group.calls
                        self.assertEqual((asked, args[1:]), (method, (expected, 5)))
                        self.check_same(args[0], [one])
                        waits = 0 if returned is group.handle else 1
                        self.assertEqual(group.handle.waits, waits)
        self.assertIs(dist.isend(one, 2), self.group.handle)
        self.assertIs(dist.irecv(one, 2), self.group.handle)

    def test_messages_in_a_batch(self):
        """Each is asked for, in order, of the group that it names."""
        pair, sent, received = dist.new_group(PAIR), rows(), rows()
        operations = [
            dist.P2POp(dist.isend, sent, 2, group=pair, tag=3),
            dist.P2POp(dist.irecv, received, group=pair, tag=4, group_peer=1),
        ]
        works = dist.batch_isend_irecv(operations)
        self.assertEqual([(n, a[1:]) for n, a in pair.calls], [("send", (1, 3)), ("recv", (1, 4))])
        self.assertIs(pair.calls[0][1][0][0], sent)
        self.assertIs(pair.calls[1][1][0][0], received)
        self.assertEqual(len(works), 2)
        for wrong, error in (([], (ValueError, IndexError)), ([1], ValueError)):
            with self.subTest(wrong=wrong), self.assertRaises(error):
                dist.batch_isend_irecv(wrong)

    def test_barrier(self):
        """On the CPU, with the devices that the caller names where it names any, and with its time limit."""
        for async_op in (False, True):
            self.group.calls.clear()
            returned = dist.barrier(async_op=async_op)
            ((asked, args),) = self.group.calls
            self.assertEqual(asked, "barrier")
            self.check_options(args[-1], {"asyncOp": async_op, "device": torch.device("cpu")})
            self.assertIs(returned, self.group.handle if async_op else None)
            self.assertEqual(self.group.handle.waits, 0 if async_op else 1)
        dist.barrier(device_ids=[0])
        self.check_options(self.group.calls[-1][1][-1], {"device_ids": [0]})


if __name__ == "__main__":
    run_tests()
