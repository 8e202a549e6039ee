"""Tests the keys by which calls of ``ProcessGroup``'s methods are told apart."""

from __future__ import annotations

import json
import unittest
from datetime import timedelta
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch._C import _distributed_c10d

from harness.communication.record.arguments import of_method
from harness.communication.record.call_keys import quick_key
from harness.communication.record.signatures import call_text, signature_of
from harness.communication_call import Signature
from suites.selftest.communication.call_options import options

c10d: Any = _distributed_c10d
GROUP = Signature("?", "0", members=(4, 6), default=True)
TWO, THREE = torch.ones(2), torch.ones(3)


class QuickKeyTest(unittest.TestCase):
    """``quick_key``: the same for the same arguments, another for others."""

    def test_quick_key(self) -> None:
        """What differs in the signature differs in the key."""
        key = quick_key("all_reduce")
        plain, largest = (
            options(c10d.AllreduceOptions, reduceOp=op, asyncOp=False)
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX)
        )
        told, own_work = key(([TWO], plain), {})
        self.assertEqual((told, own_work), key(([torch.zeros(2)], plain), {}))
        for other in ([THREE], [TWO.int()], [TWO, TWO]):
            self.assertNotEqual(told, key((other, plain), {})[0])
        self.assertNotEqual(told, key(([TWO], largest), {})[0])
        self.assertTrue(key(([TWO], options(c10d.AllreduceOptions, asyncOp=True)), {})[1])
        self.assertTrue(quick_key("send")(([TWO], 1, 0), {})[1])
        self.assertNotEqual(*(quick_key("send")(([TWO], 1, tag), {})[0] for tag in (0, 1)))

    def test_pairs(self) -> None:
        """Of a call with an output and an input the input counts, and what it reduces with."""
        for operation, kind, fields in (
            ("all_gather_into_tensor", c10d.AllgatherOptions, {}),
            ("reduce_scatter_tensor", c10d.ReduceScatterOptions, {"reduceOp": dist.ReduceOp.SUM}),
        ):
            key, plain = quick_key(operation), options(kind, asyncOp=False, **fields)
            told = key((TWO, THREE, plain), {})
            self.assertEqual(told, key((torch.zeros(2), torch.zeros(3), plain), {}))
            self.assertFalse(told[1])
            for other in (TWO, THREE.int(), THREE[None], nn.Parameter(THREE)):
                self.assertNotEqual(told[0], key((TWO, other, plain), {})[0])
            self.assertNotEqual(told[0], key(([TWO], [THREE], plain), {})[0])
            self.assertTrue(key((TWO, THREE, options(kind, asyncOp=True, **fields)), {})[1])
        largest = options(kind, reduceOp=dist.ReduceOp.MAX, asyncOp=False)
        self.assertNotEqual(told[0], key((TWO, THREE, largest), {})[0])

    def test_outputs(self) -> None:
        """Outputs of which a signature tells nothing are not in the key; those that it tells apart are."""
        gathers, scatters = c10d.AllgatherOptions, c10d.ReduceScatterOptions
        lists = [[[each, TWO]] for each in (TWO, TWO.int(), TWO[None], THREE)]
        rows: tuple[tuple[str, Any, list[Any], Any], ...] = (
            ("all_gather_into_tensor", gathers, [TWO, TWO.int(), THREE], TWO),
            ("reduce_scatter_tensor", scatters, [TWO, TWO.int(), THREE], TWO),
            ("all_gather", gathers, lists, [TWO]),
            ("gather", c10d.GatherOptions, lists, [TWO]),
        )
        for operation, kind, outputs, given in rows:
            calls = [(output, given, options(kind, asyncOp=False)) for output in outputs]
            keys = [quick_key(operation)(call, {})[0] for call in calls]
            told = [
                signature_of(json.loads(call_text(operation, of_method(operation, "", call, {}))), GROUP)
                for call in calls
            ]
            with self.subTest(operation):
                self.assertEqual([keys.index(each) for each in keys], [told.index(each) for each in told])

    def test_roots(self) -> None:
        """The root counts where there is one, and the operation where it reduces to one."""
        for operation, kind in (("broadcast", c10d.BroadcastOptions), ("reduce", c10d.ReduceOptions)):
            key = quick_key(operation)
            told = key(([TWO], options(kind, rootRank=1, asyncOp=False)), {})
            self.assertEqual(told, key(([torch.zeros(2)], options(kind, rootRank=1, asyncOp=False)), {}))
            self.assertNotEqual(told[0], key(([TWO], options(kind, rootRank=0, asyncOp=False)), {})[0])
        largest = options(kind, rootRank=1, reduceOp=dist.ReduceOp.MAX, asyncOp=False)
        self.assertNotEqual(told[0], key(([TWO], largest), {})[0])

    def test_splits(self) -> None:
        """Split sizes of both sides count."""
        key, plain = quick_key("all_to_all_single"), options(c10d.AllToAllOptions, asyncOp=False)
        given = [([], []), ([1, 1], []), ([], [1, 1]), ([2, 0], [1, 1]), ([1, 1], [2, 0]), ([1], [1, 2])]
        told = [key((TWO, TWO, *splits, plain), {})[0] for splits in given]
        self.assertEqual(len(set(told)), len(given))
        self.assertEqual(told[3], key((TWO, torch.zeros(2), [2, 0], [1, 1], plain), {})[0])

    def test_lists(self) -> None:
        """Each tensor of both lists counts, in its place, and so does the root or what is reduced with."""
        sizes = {name: torch.ones(n) for name, n in (("a", 1), ("b", 2))}

        def lists(outputs: str, inputs: str) -> tuple[Any, Any]:
            return [sizes[name] for name in outputs], [sizes[name] for name in inputs]

        key, plain = quick_key("all_to_all"), options(c10d.AllToAllOptions, asyncOp=True)
        given = [("ab", "ab"), ("ba", "ab"), ("ab", "ba"), ("a", "bab"), ("aba", "b"), ("", "abab")]
        told = [key((*lists(*each), plain), {}) for each in given]
        self.assertEqual(len({each for each, _ in told}), len(given))
        self.assertTrue(all(own_work for _, own_work in told))
        key, kind = quick_key("gather"), c10d.GatherOptions
        (outputs, inputs), plain = lists("bb", "b"), options(kind, rootRank=0, asyncOp=False)
        told = [key(each, {}) for each in (([outputs], inputs, plain), ([], inputs, plain))]
        told.append(key(([outputs], inputs, options(kind, rootRank=1, asyncOp=False)), {}))
        self.assertEqual(len({each for each, _ in told}), 3)
        self.assertEqual(told[0], key(([[*outputs]], [torch.zeros(2)], plain), {}))

    def test_lists_of_several_lists(self) -> None:
        """They are read step by step."""
        key, plain = quick_key("all_gather"), c10d.AllgatherOptions()
        told = [key(([each, each], [TWO, TWO], plain), {})[0] for each in ([TWO, TWO], [TWO, THREE])]
        self.assertNotEqual(*told)

    def test_without_options(self) -> None:
        """A tensor where most calls have a list is not taken apart, which would be an operator's work."""
        for operation, given in (
            ("all_reduce", (TWO, dist.ReduceOp.SUM)),
            ("broadcast", (TWO, 0)),
            ("all_gather", ([TWO], TWO, timedelta(seconds=2))),
            ("scatter", (TWO, [TWO], 0)),
        ):
            taken_apart = mock.patch.object(torch.Tensor, "__iter__", side_effect=AssertionError("unbind"))
            with self.subTest(operation), taken_apart:
                self.assertEqual(quick_key(operation)(given, {}), quick_key(operation)(given, {}))

    def test_barriers(self) -> None:
        """A barrier's own timeout counts."""
        key, plain = quick_key("barrier"), options(c10d.BarrierOptions, asyncOp=False)
        short = options(c10d.BarrierOptions, asyncOp=False, timeout=timedelta(seconds=2))
        self.assertNotEqual(key((), {"opts": plain}), key((), {"opts": short}))
        self.assertEqual(key((), {"opts": plain})[0], key((plain,), {})[0])


if __name__ == "__main__":
    unittest.main()
