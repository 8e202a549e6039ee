"""Tests what is read of the arguments of communication calls, in each form that torch has for them."""

from __future__ import annotations

import json
import unittest
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

from harness.communication.record.arguments import (
    FUNCTIONAL,
    METHODS,
    OPERATORS,
    Arguments,
    are_real,
    key_of,
    of_method,
    of_operator,
    tensors_in,
)
from harness.communication.record.reduce_operations import name_of
from harness.communication.record.signatures import call_text, signature_of
from harness.communication_call import Kind, Signature
from suites.selftest.communication.call_options import options
from suites.selftest.communication.operators import functional_base, torch_operators

c10d: Any = _distributed_c10d
GROUP = Signature("?", "0", members=(4, 6), default=True, timeout_s=1800.0)
TWO, THREE = torch.ones(2), torch.ones(3)


def signature(operation: str, arguments: Arguments) -> Signature:
    """The signature of a call in a group of ranks 4 and 6."""
    return signature_of(json.loads(call_text(operation, arguments)), GROUP)


def method(name: str, *args: Any, **kwargs: Any) -> Signature:
    """The signature of a call of a method in a group of ranks 4 and 6."""
    operation = METHODS[name]
    return signature(operation, of_method(operation, name, args, kwargs))


class TablesTest(unittest.TestCase):
    """The tables of names beside what torch has."""

    def test_operators(self) -> None:
        """Each operator that is seen is one of torch's."""
        self.assertLessEqual(set(OPERATORS), set(torch_operators("c10d")))

    def test_functional(self) -> None:
        """Each functional collective has a name here, but for those that are no single call."""
        bases = set(map(functional_base, torch_operators("_c10d_functional")))
        self.assertLessEqual(bases, {*FUNCTIONAL, "wait_tensor", "batch_p2p_ops", "_wrap_tensor_autograd"})

    def test_methods(self) -> None:
        """Each method of ProcessGroup's that takes tensors has a name here."""
        self.assertLessEqual({"allreduce", "send", "recv_anysource", "barrier"}, set(METHODS))
        self.assertLessEqual(set(OPERATORS.values()), set(METHODS.values()))


class MethodTest(unittest.TestCase):
    """Calls of ProcessGroup's methods."""

    def test_reductions(self) -> None:
        """Reduce operation, root as a global rank, what must agree, and what people see."""
        largest = options(c10d.AllreduceOptions, reduceOp=dist.ReduceOp.MAX)
        found = method("allreduce", [TWO], largest)
        self.assertEqual((found.operation, found.reduce_op, found.root), ("all_reduce", "MAX", None))
        self.assertEqual((found.agreed, found.tensors, found.nbytes), ("2 x float32", "(2,) float32", 8))
        found = method("reduce", [TWO], options(c10d.ReduceOptions, rootRank=1))
        self.assertEqual((found.reduce_op, found.root), ("SUM", 6))
        self.assertEqual(method("broadcast", [TWO], options(c10d.BroadcastOptions, rootRank=1)).root, 6)

    def test_older_forms(self) -> None:
        """Without options: a bare tensor, an operation or a root in their place."""
        self.assertEqual(method("allreduce", TWO, dist.ReduceOp.MIN).reduce_op, "MIN")
        self.assertEqual(method("allreduce", [TWO], dist.ReduceOp.PRODUCT).reduce_op, "PRODUCT")
        self.assertEqual(method("broadcast", TWO, root=1).root, 6)
        self.assertEqual(method("broadcast", TWO, 1).root, 6)

    def test_parts(self) -> None:
        """What goes to and comes from each member, by count of elements."""
        found = method("allgather", [[TWO, THREE]], [TWO], c10d.AllgatherOptions())
        self.assertEqual((found.sent, found.received, found.agreed), ((2, 2), (2, 3), "float32"))
        found = method("gather", [], [TWO], options(c10d.GatherOptions, rootRank=1))
        self.assertEqual((found.root, found.sent, found.received), (6, (-1, 2), ()))
        found = method("scatter", [TWO], [[TWO, THREE]], options(c10d.ScatterOptions, rootRank=0))
        self.assertEqual((found.sent, found.received, found.tensors), ((2, 3), (2, -1), "(2,) float32"))
        found = method("alltoall", [TWO, THREE], [THREE, TWO], c10d.AllToAllOptions())
        self.assertEqual((found.sent, found.received), ((3, 2), (2, 3)))
        rows = torch.ones(4, 5)
        found = method("alltoall_base", rows, rows, [1, 3], [2, 2], c10d.AllToAllOptions())
        self.assertEqual((found.sent, found.received), ((10, 10), (5, 15)))
        found = method("alltoall_base", rows, torch.ones(6, 5), [], [], c10d.AllToAllOptions())
        self.assertEqual((found.sent, found.received), ((15, 15), (10, 10)))

    def test_messages(self) -> None:
        """Peer as a global rank, tag; from any source there is no peer."""
        found = method("send", [TWO], 1, 7)
        self.assertEqual((found.kind, found.peer, found.tag), (Kind.SEND, 6, 7))
        self.assertEqual(method("recv", [TWO], 0, 0).peer, 4)
        found = method("recv_anysource", [TWO], 3)
        self.assertEqual((found.kind, found.peer, found.tag), (Kind.RECEIVE, None, 3))

    def test_barriers(self) -> None:
        """A barrier's own timeout counts, else its group's."""
        self.assertEqual(method("barrier", opts=c10d.BarrierOptions()).timeout_s, 1800.0)
        short = options(c10d.BarrierOptions, timeout=timedelta(seconds=2))
        self.assertEqual(method("barrier", opts=short).timeout_s, 2.0)
        self.assertEqual(method("monitored_barrier", timedelta(seconds=3), True).timeout_s, 3.0)


class OperatorTest(unittest.TestCase):
    """Calls of operators, by the names of their arguments."""

    def test_table(self) -> None:
        """Operators of both namespaces."""
        found = of_operator("all_reduce", {"tensors": [TWO], "reduce_op": "max", "timeout": -1})
        self.assertEqual((found.inputs, name_of(found.reduce_op), found.timeout_s), ((TWO,), "MAX", None))
        found = of_operator("broadcast", {"input": TWO, "src": 1})
        self.assertEqual((found.root, found.peer), (1, None))
        found = of_operator("recv", {"tensors": [TWO], "src": 1, "tag": 5})
        self.assertEqual((found.root, found.peer, found.tag), (None, 1, 5))
        found = of_operator("barrier", {"tensor": TWO, "timeout": 1500})
        self.assertEqual((found.inputs, found.timeout_s), ((), 1.5))

    def test_splits_without_an_output(self) -> None:
        """A functional call makes its output itself: its rows are as wide as the input's."""
        given = {"input": torch.ones(0, 5), "input_split_sizes": [0, 0], "output_split_sizes": [1, 2]}
        found = signature("all_to_all_single", of_operator("all_to_all_single", given))
        self.assertEqual((found.sent, found.received), ((0, 0), (5, 10)))

    def test_stand_ins(self) -> None:
        """A tensor without data is no communication."""
        self.assertTrue(are_real(Arguments((TWO,))))
        self.assertFalse(are_real(Arguments((torch.ones(2, device="meta"),))))


class KeyTest(unittest.TestCase):
    """Tensors among arguments, and ``key_of``: the same for the same arguments, another for others."""

    def test_tensors_in(self) -> None:
        """The tensors among arguments, in lists of lists too."""
        for given, found in (
            (([TWO], 1, 0), [TWO]),
            ((TWO, THREE, None), [TWO, THREE]),
            (([[TWO, THREE], [TWO]], (THREE,), [1, 2]), [TWO, THREE, TWO, THREE]),
        ):
            self.assertEqual([*map(id, tensors_in(given))], [*map(id, found)])

    def test_key_of(self) -> None:
        """The key of arguments that were read."""
        self.assertEqual(
            key_of("send", Arguments((TWO,), tag=1)), key_of("send", Arguments((torch.zeros(2),), tag=1))
        )
        self.assertNotEqual(
            key_of("send", Arguments((TWO,), tag=1)), key_of("send", Arguments((TWO,), tag=2))
        )


if __name__ == "__main__":
    unittest.main()
