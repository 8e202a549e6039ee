"""Tests the pipe of a rank in the process that judges it."""

from __future__ import annotations

import unittest

from harness.outcomes import Status, SubtestOutcome
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.result import RankResult


class DirectChannelTest(unittest.TestCase):
    """``DirectChannel``, in the place of upstream's pipe."""

    def test_result(self) -> None:
        """The last result that a rank records counts, and there is none before."""
        channel = DirectChannel()
        self.assertIsNone(channel.result)
        for status in (Status.FAILED, Status.PASSED):
            channel.record(RankResult(status))
        self.assertEqual(channel.result, RankResult(Status.PASSED))

    def test_texts(self) -> None:
        """What is sent through the pipe is kept as text, in order, also after it was closed."""
        channel = DirectChannel()
        channel.send("a traceback")
        channel.close()
        channel.send(ValueError("no"))
        self.assertEqual(channel.texts, ["a traceback", "no"])

    def test_calls(self) -> None:
        """The owner hears of failed sub-tests and of the moment when the test begins."""
        heard: list[object] = []
        channel = DirectChannel(subtest_failed=heard.append, on_ready=lambda: heard.append("ready"))
        subtest = SubtestOutcome(None, (("n", "1"),), Status.FAILED)
        channel.ready()
        channel.subtest_failed(subtest)
        self.assertEqual(heard, ["ready", subtest])

    def test_nobody_listens(self) -> None:
        """A channel works without an owner, and shares nothing with others."""
        one, other = DirectChannel(), DirectChannel()
        one.ready()
        one.subtest_failed(SubtestOutcome(None, (), Status.FAILED))
        one.send("text")
        one.kept["name"] = 1
        self.assertEqual((other.texts, other.kept), ([], {}))


if __name__ == "__main__":
    unittest.main()
