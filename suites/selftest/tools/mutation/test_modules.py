"""Tests which files of torch are mutated."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from tools.mutation import modules


class FilesTest(unittest.TestCase):
    """``files``, of the torch that is installed."""

    def test_all_are_there(self) -> None:
        found = modules.files()
        self.assertEqual(found, sorted(set(found)))
        self.assertTrue(all((modules.root() / name).is_file() for name in found))
        self.assertFalse([name for name in found if name.startswith(modules.LEFT_OUT)])
        for name in modules.MUTATED:
            with self.subTest(name):
                self.assertTrue([f for f in found if f.startswith(name)])

    def test_some(self) -> None:
        some = ["torch/distributed/device_mesh.py", "torch/distributed/rendezvous.py"]
        self.assertEqual(modules.files(("distributed/device_mesh", "rendezvous")), some)

    def test_none(self) -> None:
        with self.assertRaisesRegex(UsageError, "no mutated file has 'nowhere' in its name"):
            modules.files(("nowhere",))

    def test_group(self) -> None:
        rows = {
            "torch/distributed/tensor/_ops/utils.py": "torch/distributed/tensor",
            "torch/distributed/utils.py": "torch/distributed/utils.py",
            "torch/distributed/tensors.py": "torch/distributed/tensors.py",
        }
        self.assertEqual({file: modules.group(file) for file in rows}, rows)
