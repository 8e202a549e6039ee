"""Tests what a rank keeps of its calls' tensors, and when it reads them."""

from __future__ import annotations

import mmap
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist

from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.log_entries import OWN_WORK
from harness.communication.record.arguments import Arguments
from harness.communication.tensor_values import value_recorder
from harness.communication.tensor_values.value_recorder import KeptCall, ValueRecorder, is_plain, tensor_of
from harness.communication.tensor_values.values import (
    NO_PLAIN_TENSOR,
    STRIDED,
    TOO_LARGE,
    WRITTEN,
    CallValues,
    read,
)
from harness.communication_call import Signature


class Work:
    """A work handle that is played."""

    def __init__(self, *, completed: bool = True, success: bool = True, source: int | None = None) -> None:
        self.completed = completed
        self.success = success
        self.source = source

    def is_completed(self) -> bool:
        """Whether the call is over."""
        return self.completed

    def is_success(self) -> bool:
        """Whether it went well."""
        return self.success

    def _source_rank(self) -> int:
        if self.source is None:
            raise RuntimeError("not of a receive")
        return self.source


def numbers(tensor: Any) -> list[Any]:
    """The numbers of a kept float32 tensor."""
    found: list[Any] = np.frombuffer(tensor.data, "float32").reshape(tensor.shape).tolist()
    return found


class RecorderCase(unittest.TestCase):
    """Base class: a recorder that writes to memory."""

    def setUp(self) -> None:
        self.log = CallLog(mmap.mmap(-1, LOG_BYTES))
        self.log.clear()
        self.written = b""
        self.values = ValueRecorder(self.log, self.append)

    def append(self, record: bytes) -> None:
        """Takes one more record."""
        self.written += record

    def begin(
        self, operation: str, arguments: Arguments, *, own_work: bool = False, functional: bool = False
    ) -> KeptCall | None:
        """Begins a call of the rank."""
        signature = self.log.text(Signature(operation, members=(0, 1)))
        token = self.log.begin(signature, 0, 1, flags=OWN_WORK if own_work else 0)
        return self.values.began(token, operation, arguments, functional=functional)

    def begun(self, operation: str, arguments: Arguments, **how: bool) -> KeptCall:
        """Begins a call of which something is kept."""
        kept = self.begin(operation, arguments, **how)
        assert kept is not None
        return kept

    def last(self) -> CallValues:
        """The last call as the parent reads it."""
        return read(self.written)[-1]


class CallTest(RecorderCase):
    """One call from its begin to its end."""

    def test_in_place(self) -> None:
        """What is given is read before the call, what is got when the wait has returned."""
        tensor, work = torch.tensor([1.0, 2.0]), Work()
        kept = self.begun("all_reduce", Arguments((tensor,), own_work=True), own_work=True)
        self.values.returned(kept, work)
        tensor.numpy()[:] = 5.0  # as a backend does, which changes no version
        self.assertIsNone(self.last().outputs)
        self.values.waited(work)
        found = self.last()
        assert found.outputs is not None
        self.assertEqual((found.call.signature.operation, found.why_not), ("all_reduce", ""))
        self.assertEqual([numbers(t) for t in (*found.inputs, *found.outputs)], [[1, 2], [5, 5]])
        self.values.waited(work)
        self.assertEqual(len(read(self.written)), 1)

    def test_at_once(self) -> None:
        """A call without a work handle has ended when it returns."""
        given, filled = torch.tensor([1.0]), torch.tensor([2.0, 3.0])
        kept = self.begun("all_gather_into_tensor", Arguments((given,), (filled,)))
        self.values.returned(kept, None)
        self.assertEqual([numbers(t) for t in self.last().outputs or ()], [[2, 3]])

    def test_receive(self) -> None:
        """Nothing is given to a receive; whose message it got is asked."""
        work = Work(source=3)
        self.values.returned(self.begun("recv", Arguments((torch.ones(1),))), work)
        self.values.waited(work)
        self.assertEqual((self.last().inputs, self.last().source), ((), 3))

    def test_raised(self) -> None:
        """A call that raised, at once or in the wait."""
        for in_wait in (False, True):
            kept, work = self.begun("all_reduce", Arguments((torch.ones(1),))), Work()
            if in_wait:
                self.values.returned(kept, work)
                self.values.waited(work, raised=True)
            else:
                self.values.raised(kept)
            self.assertTrue(self.last().raised, in_wait)

    def test_polled(self) -> None:
        """A call is over when the test was told so, unless it failed."""
        for work, over in ((Work(), True), (Work(completed=False), False), (Work(success=False), False)):
            self.values.returned(self.begun("all_reduce", Arguments((torch.ones(1),))), work)
            self.values.learnt_of(work)
            self.assertEqual(self.last().outputs is not None, over)

    def test_nothing_kept(self) -> None:
        """Neither of a call without tensors, nor of one that is not recorded."""
        self.assertIsNone(self.begin("barrier", Arguments()))
        self.assertIsNone(self.values.began(-1, "all_reduce", Arguments((torch.ones(1),))))
        self.assertEqual(self.written, b"")

    def test_factor(self) -> None:
        """PREMUL_SUM's factor is kept where it is a number."""
        premul: Callable[[Any], Any] = dist._make_nccl_premul_sum
        for op, factor in ((premul(2.0), 2.0), (premul(torch.ones(1)), None), (dist.ReduceOp.SUM, None)):
            self.begin("all_reduce", Arguments((torch.ones(1),), reduce_op=op))
            self.assertEqual(self.last().factor, factor)


class FunctionalTest(RecorderCase):
    """Calls of C++, whose work handles nobody sees."""

    def test_results(self) -> None:
        """The results are read when each of them was waited for."""
        given, one, two = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])
        kept = self.begun("all_reduce_coalesced", Arguments((given, given)), functional=True)
        self.values.fills(kept, [one, two])
        self.values.waited_for_tensor(one.untyped_storage().data_ptr())
        self.assertIsNone(self.last().outputs)
        self.values.waited_for_tensor(two.untyped_storage().data_ptr())
        self.assertEqual([numbers(t) for t in self.last().outputs or ()], [[2], [3]])

    def test_in_place(self) -> None:
        """A result may be what was given, which is then not taken for written by the test."""
        tensor = torch.tensor([1.0])
        kept = self.begun("all_reduce", Arguments((tensor,)), functional=True)
        self.values.fills(kept, tensor)
        tensor += 1
        self.values.waited_for_tensor(tensor.untyped_storage().data_ptr())
        self.assertEqual(([numbers(t) for t in self.last().outputs or ()], self.last().why_not), ([[2]], ""))

    def test_left_cpp(self) -> None:
        """When C++ has waited for all, all have ended, each once."""
        tensors = [torch.ones(1), torch.ones(2)]
        self.values.fills(self.begun("all_reduce_coalesced", Arguments(tuple(tensors))), tensors)
        self.values.left_cpp()
        self.values.left_cpp()
        (found,) = read(self.written)
        self.assertEqual(len(found.outputs or ()), 2)


class WhyNotTest(RecorderCase):
    """Calls whose values are left out or mean nothing."""

    def test_too_large(self) -> None:
        """A call's tensors are kept up to a size, and a test's."""
        with mock.patch.object(value_recorder, "MOST_OF_A_CALL", 8):
            self.assertIsNotNone(self.begin("all_reduce", Arguments((torch.ones(1),))))
            self.assertIsNone(self.begin("all_reduce", Arguments((torch.ones(2),))))
            self.assertEqual((self.last().why_not, self.last().inputs), (TOO_LARGE, ()))
        with mock.patch.object(value_recorder, "MOST_OF_A_TEST", len(self.written) + 100):
            self.assertIsNotNone(self.begin("all_reduce", Arguments((torch.ones(1),))))
            self.assertIsNone(self.begin("all_reduce", Arguments((torch.ones(1),))))

    def test_sparse(self) -> None:
        """A sparse tensor is not kept."""
        self.assertIsNone(self.begin("all_reduce", Arguments((torch.ones(2).to_sparse(),))))
        self.assertEqual(self.last().why_not, NO_PLAIN_TENSOR)

    def test_strided(self) -> None:
        """Backends take memory as it is, so a tensor with strides is kept for functional calls alone."""
        strided = Arguments((torch.ones(2, 3).t(),))
        self.assertIsNone(self.begin("all_reduce", strided))
        self.assertEqual((self.last().why_not, self.last().inputs), (STRIDED, ()))
        self.assertIsNotNone(self.begin("all_reduce", strided, functional=True))

    def test_written(self) -> None:
        """The test wrote what the call reads, or what it fills."""
        given, filled = torch.ones(1), torch.ones(2)
        kept = self.begun("all_gather_into_tensor", Arguments((given,), (filled,)), own_work=True)
        given += 1
        self.values.returned(kept, None)
        self.assertEqual(self.last().why_not, WRITTEN)
        work = Work()
        self.values.returned(self.begun("all_reduce", Arguments((given,)), own_work=True), work)
        given += 1
        self.values.waited(work)
        self.assertEqual(self.last().why_not, WRITTEN)

    def test_shared(self) -> None:
        """Of two calls at a time on the same memory, one of which writes, neither is compared."""
        tensor, works = torch.ones(4), [Work(), Work(), Work()]
        for part, work in zip((tensor, tensor[2:], torch.ones(1)), works, strict=True):
            self.values.returned(self.begun("all_reduce", Arguments((part,)), own_work=True), work)
        for work in works:
            self.values.waited(work)
        self.assertEqual([v.why_not for v in read(self.written)], [WRITTEN, WRITTEN, ""])
        for work in works[:2]:
            self.values.returned(self.begun("send", Arguments((tensor,)), own_work=True), work)
        for work in works[:2]:
            self.values.waited(work)
        self.assertEqual([v.why_not for v in read(self.written)[3:]], ["", ""])


class TensorTest(unittest.TestCase):
    """A tensor's elements as bytes."""

    def test_layouts(self) -> None:
        """Elements are in row-major order, whatever the strides are."""
        whole = torch.arange(12.0).reshape(3, 4)
        for tensor in (whole, whole.t(), whole[:, 1:3], whole[1], torch.tensor(3.0).expand(2, 2), whole[:0]):
            found = tensor_of(tensor)
            self.assertEqual((found.shape, numbers(found)), (tuple(tensor.shape), tensor.tolist()))
            self.assertTrue(is_plain(tensor))
        conjugate = torch.tensor([1 + 2j]).conj()
        self.assertEqual(tensor_of(conjugate).data, torch.tensor([1 - 2j]).numpy().tobytes())
        self.assertEqual(tensor_of(torch.ones(1, dtype=torch.bfloat16)).dtype, "bfloat16")

    def test_not_plain(self) -> None:
        """Tensors without their elements in memory of their own."""
        freed = torch.ones(4)
        freed.untyped_storage().resize_(0)
        for tensor in (freed, torch.empty(1, device="meta"), torch.ones(1).to_sparse()):
            self.assertFalse(is_plain(tensor))

    def test_unseen_by_modes(self) -> None:
        """No operator runs that a mode of the test could see."""
        from torch.utils._python_dispatch import TorchDispatchMode

        seen = []

        class Watch(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.append(func)
                return func(*args, **(kwargs or {}))

        plain, conjugate = torch.ones(2, 2).t(), torch.tensor([1 + 2j]).conj()
        with Watch():
            for tensor in (plain, conjugate):
                self.assertTrue(is_plain(tensor))
                tensor_of(tensor)
        self.assertEqual(seen, [])


if __name__ == "__main__":
    unittest.main()
