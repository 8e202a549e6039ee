"""Tests what a rank sees wrong in its own memory while calls are under way."""

from __future__ import annotations

import unittest
from unittest import mock

import torch
import torch.distributed as dist

from harness.communication.record import pending_calls
from harness.communication.record.arguments import Arguments
from harness.communication.record.memory_use import Used
from harness.communication.record.pending_calls import PendingCalls


class Work:
    """A work handle."""

    def __init__(self, *, completed: bool = False) -> None:
        self.completed = completed

    def is_completed(self) -> bool:
        """Whether the call is over."""
        return self.completed


def used(operation: str, arguments: Arguments) -> Used:
    """What a call uses: one of these operations that has no output writes its input, or sends it."""
    tensors = (*arguments.outputs, *arguments.inputs)
    return tensors, 0 if operation == "send" else len(arguments.outputs) or len(tensors)


class PendingTest(unittest.TestCase):
    """What ``PendingCalls`` says of calls under way."""

    def setUp(self) -> None:
        self.calls = PendingCalls()

    def begin(self, operation: str, tensor: torch.Tensor, work: Work, **fields: object) -> list[str]:
        """Begins a call with one input, and returns what is found."""
        arguments = Arguments((tensor,), **fields)  # type: ignore[arg-type]  # fields of Arguments
        return list(self.calls.began(operation, "", used(operation, arguments), lambda: arguments, (), work))

    def meet(self, operation: str, tensor: torch.Tensor) -> list[str]:
        """What is found of a call with one input that its rank waits for at once."""
        return list(self.calls.meets(operation, "", used(operation, Arguments((tensor,)))))

    def test_written(self) -> None:
        """A tensor that was written before the wait is told once; one that was not is not."""
        tensor, work = torch.ones(3), Work()
        self.begin("all_reduce", tensor, work)
        tensor.add_(1)
        self.assertEqual(
            list(self.calls.waited(work)), ["a tensor of all_reduce was written before the wait for it"]
        )
        self.assertEqual(list(self.calls.waited(work)), [])
        self.begin("all_reduce", tensor, work)
        self.assertEqual(list(self.calls.waited(work)), [])
        self.assertFalse(self.calls.calls)

    def test_written_by_the_backend(self) -> None:
        """Operations that the backend makes of operators say nothing by their versions."""
        for operation, op in (("all_reduce", dist.ReduceOp.AVG), ("all_reduce_coalesced", dist.ReduceOp.SUM)):
            tensor, work = torch.ones(3), Work()
            self.begin(operation, tensor, work, reduce_op=op)
            tensor.div_(2)
            self.assertEqual(list(self.calls.waited(work)), [], operation)

    def test_copied_to_the_device(self) -> None:
        """What a call writes on an accelerator a backend may have copied there; what it only reads, not."""
        for operation, found in (("all_reduce", 0), ("send", 1)):
            tensor, work = torch.ones(3, device="meta"), Work()
            self.begin(operation, tensor, work)
            tensor.zero_()
            self.assertEqual(len(list(self.calls.waited(work))), found, operation)

    def test_overlap(self) -> None:
        """Two calls on the same bytes, one of which writes."""
        whole = torch.zeros(8)
        table = {
            "both write": ("recv", whole[:5], "recv", whole[4:], 1),
            "beside each other": ("recv", whole[:4], "recv", whole[4:], 0),
            "both read": ("send", whole, "send", whole, 0),
            "one writes": ("send", whole, "recv", whole[2:3], 1),
        }
        for name, (first, one, second, other, expected) in table.items():
            with self.subTest(name):
                self.calls.clear()
                self.begin(first, one, Work())
                self.assertEqual(len(self.begin(second, other, Work())), expected)

    def test_meets(self) -> None:
        """A call that its rank waits for at once is compared with those under way, and not watched itself."""
        whole, other = torch.zeros(8), Work()
        self.begin("send", whole[:4], other)
        for operation, tensor, found in (
            ("all_reduce", whole[3:], ["all_reduce uses memory of send, which is under way"]),
            ("all_reduce", whole[4:], []),
            ("send", whole[3:], []),
        ):
            self.assertEqual(self.meet(operation, tensor), found)
        self.assertEqual(len(self.calls.calls), 1)
        other.completed = True
        self.assertEqual(self.meet("recv", whole), [])

    def test_overlap_with_what_is_over(self) -> None:
        """A call that is over, waited for or asked about is in nobody's way."""
        tensor = torch.zeros(2)
        self.begin("recv", tensor, Work(completed=True))
        self.assertEqual(self.begin("recv", tensor, Work()), [])
        self.calls.clear()
        for end in (lambda work: list(self.calls.waited(work)), self.calls.forget):
            work = Work()
            self.begin("recv", tensor, work)
            end(work)
            self.assertEqual(self.begin("recv", tensor, Work()), [])
            self.calls.clear()

    def test_many_under_way(self) -> None:
        """Of many calls under way those are found that use the same bytes, and only until they are over."""
        whole = torch.zeros(64)
        works = {at: Work() for at in (40, 0, 20, 30, 10, 50)}
        for at, work in works.items():
            self.begin("send", whole[at : at + 5], work)
        long = Work()
        self.assertEqual(self.begin("send", whole[4:31], long), [])
        for tensor, count in ((whole[5:6], 1), (whole[34:40], 1), (whole[24:31], 3), (whole[55:], 0)):
            self.assertEqual(len(self.meet("recv", tensor)), count)
        list(self.calls.waited(long))
        self.calls.forget(works[30])
        for tensor, count in ((whole[5:10], 0), (whole[24:31], 1), (whole[30:40], 0), (whole, 5)):
            self.assertEqual(len(self.meet("recv", tensor)), count)

    def test_nothing_is_asked_of_what_is_over(self) -> None:
        """However many calls have used some bytes before, the next one there meets only those under way."""
        tensor, works = torch.zeros(2), [Work() for _ in range(20)]
        self.begin("send", torch.zeros(2), Work())
        for work in works:
            self.begin("recv", tensor, work)
            list(self.calls.waited(work))
        with mock.patch.object(Work, "is_completed", return_value=False) as asked:
            self.assertEqual(self.begin("recv", tensor, Work()), [])
        asked.assert_not_called()

    def test_gaps(self) -> None:
        """A tensor between whose elements are others' is in nobody's way; one that is only turned is."""
        table = torch.zeros(4, 4)
        self.begin("recv", table[:, :2], Work())
        self.assertEqual(self.begin("recv", table[:, 2:], Work()), [])
        self.assertEqual(self.begin("recv", table[0, :1], Work()), [])
        self.assertEqual(len(self.begin("recv", table.t(), Work())), 1)

    def test_what_is_only_read(self) -> None:
        """Calls that have an input in common are in nobody's way, until one writes to it."""
        shared = torch.zeros(2)
        for _ in range(10):
            self.assertEqual(self.begin("send", shared, Work()), [])
        self.assertEqual(len(self.begin("recv", shared, Work())), 10)

    def test_outputs(self) -> None:
        """What a call fills is written."""
        tensor, other = torch.zeros(2), torch.zeros(2)
        self.begin("all_gather", other, Work(), outputs=(tensor,))
        self.assertEqual(len(self.begin("send", tensor, Work())), 1)
        self.assertEqual(self.begin("send", other, Work()), [])

    def test_unseen_tensors(self) -> None:
        """Tensors without versions or bytes in a row are left out."""
        with torch.inference_mode():
            inferred = torch.ones(2)
        for tensor in (inferred, torch.ones(2).to_sparse(), torch.ones(0)):
            self.assertEqual(self.begin("recv", tensor, Work()), [])

    def test_most(self) -> None:
        """A program that never waits does not keep all its tensors alive."""
        works = [Work() for _ in range(2 * pending_calls.MOST)]
        for work in works:
            self.begin("send", torch.ones(1), work)
        self.assertLessEqual(len(self.calls.calls), pending_calls.MOST)


if __name__ == "__main__":
    unittest.main()
