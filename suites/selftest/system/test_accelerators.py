"""Tests which accelerators a process is said to have used."""

from __future__ import annotations

import sys
import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

from harness.system import accelerators


def module(*, initialized: bool) -> Any:
    """torch's module for a device type."""
    return SimpleNamespace(is_initialized=lambda: initialized)


class InUseTest(unittest.TestCase):
    """What ``in_use`` finds in the modules of torch."""

    def test_table(self) -> None:
        """Those with a context count, that of a device type which somebody has named too."""
        used, idle = module(initialized=True), module(initialized=False)
        core = SimpleNamespace(_get_privateuse1_backend_name=lambda: "mine")
        table: tuple[tuple[Any, list[str]], ...] = (
            (None, []),
            (SimpleNamespace(), []),
            (SimpleNamespace(cuda=idle, xpu=idle, _C=core), []),
            (SimpleNamespace(cuda=used, xpu=idle, _C=core), ["cuda"]),
            (SimpleNamespace(cuda=idle, mine=used, _C=core), ["mine"]),
            (SimpleNamespace(cuda=SimpleNamespace(), hpu=used, mine=idle, _C=core), ["hpu"]),
        )
        for torch, found in table:
            with self.subTest(torch=torch), mock.patch.dict(sys.modules, {"torch": torch}):
                self.assertEqual(list(accelerators.in_use()), found)


if __name__ == "__main__":
    unittest.main()
