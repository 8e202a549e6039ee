"""Tests what the wrapped functions have in common."""

from __future__ import annotations

import threading
import unittest

from harness.communication.taps.tap_state import Taps


class TapsTest(unittest.TestCase):
    """``Taps``, before anything is wrapped."""

    def test_nothing_is_recorded(self) -> None:
        """Until there is a recorder, the wrapped functions call the originals only."""
        made = Taps()
        self.assertEqual((made.recorder, made.values, made.libraries), (None, None, {}))

    def test_seen_by_thread(self) -> None:
        """That a call is recorded already holds for the thread that makes it."""
        made, other = Taps(), []
        made.seen.now = True
        thread = threading.Thread(target=lambda: other.append(made.seen.now))
        thread.start()
        thread.join()
        self.assertEqual((made.seen.now, other), (True, [False]))


if __name__ == "__main__":
    unittest.main()
