"""Tests how ``HOST:PORT`` is read."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from harness.hosts.addresses import address_and_port


class AddressesTest(unittest.TestCase):
    """What ``address_and_port`` makes of texts."""

    def test_table(self) -> None:
        """Names, IPv4 and IPv6 addresses, and what is none."""
        for text, found in (
            ("node1:29700", ("node1", 29700)),
            ("10.0.0.1:0", ("10.0.0.1", 0)),
            ("[::1]:5", ("::1", 5)),
        ):
            with self.subTest(text):
                self.assertEqual(address_and_port(text), found)
        for text in ("node1", "node1:", ":5", "node1:65536", "node1:x", "node1:-1", ""):
            with self.subTest(text), self.assertRaisesRegex(UsageError, "HOST:PORT"):
                address_and_port(text)


if __name__ == "__main__":
    unittest.main()
