"""How a program's verdict is compared with what is expected of it."""

from __future__ import annotations

import re
import unittest
from collections.abc import Sequence

from harness.outcomes import ranks_text
from suites.selftest.communication.programs.program import Kind, Program

# Of the first line of a failure's text: "id: status (world size 2) after 0.10 s".
_STATUS = re.compile(r": ([a-z ]+) \(world size \d+\)")
_RANKS = re.compile(r"\branks? \d+(?:-\d+)?(?:, \d+(?:-\d+)?)*")
# What follows where a backend ends the process of a rank for what another one gave.
_CONSEQUENCE = r"(?:; rank \d+ crashed: signal SIGABRT without an outcome)?"
# Of a warning about what a test left in a rank, such as a group that it did not destroy.
LEFT = "left "


def check_verdict(
    test: unittest.TestCase,
    program: Program,
    verdict: str,
    text: str,
    warnings: Sequence[str],
    before: int = 0,
) -> None:
    """Fails ``test`` unless a program ended as its expectation says.

    ``verdict`` is unittest's, ``text`` what was raised, ``warnings`` what the test was warned of,
    ``before`` the number of collectives that the default group has had before.
    """
    said = "\n".join([f"{program.name} was to be {program.kind.value}: {verdict}", text, *warnings])
    if program.kind is Kind.PASSED:
        told = [line for line in warnings if not line.startswith(LEFT)]
        test.assertEqual((verdict, told), ("pass", []), said)
    elif program.kind is Kind.WARNING:
        test.assertEqual(verdict, "pass", said)
        missing = [missing_words(program, line, before) for line in warnings]
        test.assertIn([], missing, said)
    else:
        status = _STATUS.search(text)
        test.assertEqual(verdict, "ERROR", said)
        test.assertIn(status and status[1], program.kind.statuses, said)
        cause = next((line for line in text.splitlines() if line.startswith("cause: ")), "")
        test.assertEqual(missing_words(program, cause, before), [], said)
        for words, *_ in program.expected(before):
            if words.startswith("cause: "):
                test.assertRegex(cause, rf"^{re.escape(words)}{_CONSEQUENCE}$", said)
        if program.guilty:
            named = _RANKS.search(cause)
            test.assertEqual(named and named[0], ranks_text(program.guilty), said)


def missing_words(program: Program, line: str, before: int = 0) -> list[tuple[str, ...]]:
    """Returns the words of the expectation of which ``line`` has no alternative."""
    return [words for words in program.expected(before) if not any(map(line.__contains__, words))]
