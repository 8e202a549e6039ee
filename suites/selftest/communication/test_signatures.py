"""Tests what ranks compare of a call, and what people see of it."""

from __future__ import annotations

import unittest

import torch

from harness.communication.arguments import Arguments
from harness.communication.signatures import elements_text, signature_of, tensors_text
from harness.communication_call import Kind, Signature

GROUP = Signature("?", "0", members=(4, 6), default=True, timeout_s=1800.0)
TWO, THREE = torch.ones(2), torch.ones(3, dtype=torch.int64)


class SignatureTest(unittest.TestCase):
    """``signature_of``, in a group of ranks 4 and 6."""

    def test_fields(self) -> None:
        """Ranks are global ones; a root or an operation is there only where the call has one."""
        found = signature_of("reduce", Arguments((TWO,), reduce_op="sum", root=1), GROUP)
        self.assertEqual((found.reduce_op, found.root, found.members), ("SUM", 6, (4, 6)))
        found = signature_of("all_gather", Arguments((TWO,), (TWO, TWO), reduce_op="sum", root=1), GROUP)
        self.assertEqual((found.reduce_op, found.root, found.agreed), ("", None, "2 x float32"))
        found = signature_of("send", Arguments((TWO,), peer=0, tag=5), GROUP)
        self.assertEqual((found.kind, found.peer, found.tag), (Kind.SEND, 4, 5))

    def test_timeout(self) -> None:
        """The call's own counts, else the group's."""
        self.assertEqual(signature_of("barrier", Arguments(), GROUP).timeout_s, 1800.0)
        self.assertEqual(signature_of("barrier", Arguments(timeout_s=2.0), GROUP).timeout_s, 2.0)

    def test_texts(self) -> None:
        """Equal tensors are counted, and many are cut short."""
        self.assertEqual(tensors_text((TWO, TWO)), "2 times (2,) float32")
        self.assertEqual(tensors_text((TWO, THREE)), "(2,) float32, (3,) int64")
        self.assertTrue(tensors_text((TWO, THREE) * 3).endswith(", ..."))
        self.assertEqual(elements_text((TWO, THREE)), "2 x float32, 3 x int64")


if __name__ == "__main__":
    unittest.main()
