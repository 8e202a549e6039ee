"""Tests which threads could do something while one waits."""

from __future__ import annotations

import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from harness.communication.record.python_threads import count


class CountTest(unittest.TestCase):
    """Which threads ``count`` counts."""

    def test_threads(self) -> None:
        """Each thread counts while it runs."""
        before, go_on = count(), threading.Event()
        other = threading.Thread(target=go_on.wait)
        other.start()
        self.assertEqual(count(), before + 1)
        go_on.set()
        other.join()
        self.assertEqual(count(), before)

    def test_idle_executor(self) -> None:
        """An executor's thread counts while it works, and not while it has nothing to do."""
        before, go_on = count(), threading.Event()
        with ThreadPoolExecutor(1) as executor:
            working = executor.submit(go_on.wait)
            self.assertEqual(count(), before + 1)
            go_on.set()
            working.result()
            while count() != before:  # the thread is on its way from its work to its next
                pass

    def test_bystanders(self) -> None:
        """A thread of a progress bar does not count."""
        before, go_on = count(), threading.Event()
        kind = type("TMonitor", (threading.Thread,), {"__module__": "tqdm._monitor"})
        bar = kind(target=go_on.wait)
        bar.start()
        self.assertEqual(count(), before)
        go_on.set()
        bar.join()


if __name__ == "__main__":
    unittest.main()
