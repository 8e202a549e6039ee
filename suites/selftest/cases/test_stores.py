"""Tests stores, directories and files that a test makes for itself."""

from __future__ import annotations

import logging
import os
import socket
import unittest
from typing import Any

import torch.distributed as dist

import harness
from harness import FSDPTest, with_temp_dir


class OnRanksTest(FSDPTest):
    """On two ranks."""

    world_size = 2
    temp_dir: str

    @with_temp_dir
    def test_one_directory(self) -> None:
        """All ranks see each other's files."""
        with open(os.path.join(self.temp_dir, str(self.rank)), "w"):
            dist.barrier()
        self.assertEqual(sorted(os.listdir(self.temp_dir)), ["0", "1"])


class HelpersTest(unittest.TestCase):
    """In this process."""

    temp_dir: str

    def test_directory_is_removed(self) -> None:
        """Also where the method raises."""

        @with_temp_dir
        def method(self: Any) -> None:
            assert os.path.isdir(self.temp_dir)
            raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, method, self)
        self.assertFalse(os.path.exists(self.temp_dir))

    def test_store(self) -> None:
        store = harness.create_tcp_store()
        store.set("key", "value")
        self.assertEqual(store.get("key"), b"value")
        self.assertGreater(store.port, 0)

    def test_device_and_port(self) -> None:
        self.assertIsNotNone(harness.create_device())
        with socket.socket() as taken:
            taken.bind(("localhost", harness.find_free_port()))

    def test_logging(self) -> None:
        logger = logging.getLogger("torch.distributed.checkpoint")
        before = logger.level
        self.assertEqual(harness.with_checkpoint_logging(lambda: logger.level)(), logging.INFO)
        self.assertEqual(harness.with_checkpoint_logging(level=logging.ERROR)(lambda: logger.level)(), 40)
        self.assertEqual(logger.level, before)

    def test_temporary_names(self) -> None:
        for make in (harness.TemporaryFileName, harness.TemporaryDirectoryName):
            with make() as name:
                self.assertTrue(os.path.exists(name))
            self.assertFalse(os.path.exists(name))


if __name__ == "__main__":
    unittest.main()
