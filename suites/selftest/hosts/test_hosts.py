"""Tests the variable by which processes of tests know the hosts of their run."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from harness.hosts.hosts import Host, from_text, to_text

ONE, TWO = Host("a", "10.0.0.1", 5, 6, 2), Host("b", "10.0.0.2", 7, 8, 4)


class HostsTest(unittest.TestCase):
    """``to_text`` and ``from_text``."""

    def test_round_trip(self) -> None:
        """The hosts come back in their order."""
        self.assertEqual(from_text(to_text([TWO, ONE])), (TWO, ONE))
        self.assertEqual(ONE.where, "10.0.0.1:5")

    def test_refused(self) -> None:
        """No hosts, two of one name, and anything else are refused."""
        for text in ("", "[]", "a,b", "[1]", '[{"name": "a"}]', to_text([ONE, ONE])):
            with self.subTest(text), self.assertRaisesRegex(UsageError, "--hosts"):
                from_text(text)


if __name__ == "__main__":
    unittest.main()
