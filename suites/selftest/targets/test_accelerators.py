"""Tests how many accelerators of the target a case takes."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

from harness.targets import Target, accelerators


class TakenTest(unittest.TestCase):
    """What ``taken`` and ``too_few`` say of cases."""

    def on(self, device_type: str, count: int, *, plugged: bool = True) -> Any:
        """Has runs test such a target."""
        target = Target("mine", device_type, {}, device_count=lambda: count)
        return mock.patch.multiple(accelerators, current=lambda: target, target_given=lambda environ: plugged)

    def test_table(self) -> None:
        """Ranks take an accelerator each where the case is on the target's device type, but not the CPU."""
        said = "needs 4 accelerators, one a rank: the target mine on xpu has 2"
        table: tuple[tuple[str, int, bool, object, int, str | None], ...] = (
            ("xpu", 2, True, "xpu", 4, said),
            ("xpu", 4, True, "xpu", 4, None),
            ("xpu", 2, True, lambda: "xpu", 4, said),
            ("xpu", 2, True, "cpu", 0, None),
            ("xpu", 2, False, "xpu", 0, None),
            ("cpu", 1, True, "cpu", 0, None),
        )
        for device_type, count, plugged, of_case, taken, reason in table:
            case = SimpleNamespace(device_type=of_case, world_size=4)
            with (
                self.subTest(target=device_type, count=count, case=of_case),
                self.on(device_type, count, plugged=plugged),
            ):
                self.assertEqual(accelerators.taken(case, 4), taken)
                self.assertEqual(accelerators.too_few(case), reason)

    def test_case_without_a_device(self) -> None:
        """A case that says no device type takes none."""
        with self.on("xpu", 1):
            self.assertEqual(accelerators.taken(SimpleNamespace(world_size=4), 4), 0)


if __name__ == "__main__":
    unittest.main()
