"""Tests the events by which the controller hears of its workers."""

from __future__ import annotations

import dataclasses
import unittest

from harness.runner.workers import events


class EventsTest(unittest.TestCase):
    """The events of a worker."""

    def test_values(self) -> None:
        """Every event is frozen, because the controller passes it on to reporters and the journal."""
        kinds = events.Event.__args__
        self.assertGreater(len(kinds), 1)
        for kind in kinds:
            with self.subTest(kind.__name__):
                made = kind(*(None for _ in dataclasses.fields(kind)))
                first = dataclasses.fields(kind)[0].name
                with self.assertRaises(dataclasses.FrozenInstanceError):
                    setattr(made, first, "changed")

    def test_no_test_classes(self) -> None:
        """An event whose name begins with Test is not collected by pytest."""
        named = [kind for name, kind in vars(events).items() if name.startswith("Test")]
        self.assertGreater(len(named), 1)
        for kind in named:
            self.assertIs(kind.__test__, False, kind)


if __name__ == "__main__":
    unittest.main()
