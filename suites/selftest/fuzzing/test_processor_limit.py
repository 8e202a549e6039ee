"""Tests that what never ends is ended by its processor time, and that nothing is left of the limit."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import unittest

from harness.fuzzing.processor_limit import NeverEnds, within


class WithinTest(unittest.TestCase):
    def test_ends_what_never_ends(self) -> None:
        with self.assertRaisesRegex(NeverEnds, r"^timed out after 0\.05 s of processor time$"), within(0.05):
            while True:
                pass

    def test_ends_what_catches_errors(self) -> None:
        """Code that takes every exception for an error of its own is ended as well."""
        for kind in (Exception, BaseException):
            with self.subTest(kind), self.assertRaises(NeverEnds), within(0.05):
                with contextlib.suppress(kind):
                    while True:
                        pass
                while kind is BaseException:
                    pass
                self.fail("an Exception was caught")

    def test_waiting_takes_no_processor_time(self) -> None:
        with within(0.2):
            time.sleep(0.4)

    def test_nothing_is_left(self) -> None:
        before = signal.getsignal(signal.SIGPROF)
        with within(3600):
            self.assertGreater(signal.getitimer(signal.ITIMER_PROF)[0], 3000)
        self.assertEqual(signal.getitimer(signal.ITIMER_PROF), (0, 0))
        self.assertIs(signal.getsignal(signal.SIGPROF), before)

    def test_no_limit_in_another_thread(self) -> None:
        """Only the main thread can have handlers of signals."""
        done = []

        def run() -> None:
            with within(0.001):
                done.append(sum(range(10**6)))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        self.assertEqual(len(done), 1)


if __name__ == "__main__":
    unittest.main()
