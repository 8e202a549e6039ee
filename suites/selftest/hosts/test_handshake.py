"""Tests that both ends of a connection pass only with the run's key, for this connection and this purpose."""

from __future__ import annotations

import unittest

from hypothesis import strategies as st

from harness.hosts.handshake import MAGIC, NONCE_BYTES, Handshake, HandshakeError, Purpose
from suites.selftest.properties import given

KEY, OTHER = b"k" * 32, b"o" * 32


def dialer(key: bytes = KEY, purpose: Purpose = Purpose.SESSION) -> Handshake:
    """The end that connects."""
    return Handshake(key, purpose, listens=False)


def listener(key: bytes = KEY, purpose: Purpose = Purpose.SESSION) -> Handshake:
    """The end that is connected to."""
    return Handshake(key, purpose, listens=True)


def talk(one: Handshake, two: Handshake) -> None:
    """Passes on what each says until nobody says more."""
    said = one.begin()
    while said:
        said = two.feed(said)
        one, two = two, one


class HandshakeTest(unittest.TestCase):
    """Both ends of one handshake."""

    def test_both_pass(self) -> None:
        """With the same key both pass, and what comes behind is kept."""
        one, two = dialer(), listener()
        proof = one.feed(two.feed(one.begin()))
        self.assertTrue(one.passed)
        self.assertFalse(two.passed)
        self.assertEqual(two.feed(proof + b"more"), b"")
        self.assertTrue(two.passed)
        self.assertEqual((one.rest, two.rest), (b"", b"more"))

    def test_byte_by_byte(self) -> None:
        """It does not matter in which pieces the bytes come."""
        one, two = dialer(), listener()
        answer = b"".join(two.feed(bytes([byte])) for byte in one.begin())
        proof = b"".join(one.feed(bytes([byte])) for byte in answer)
        two.feed(proof)
        self.assertTrue(one.passed and two.passed)

    def test_another_key_or_purpose(self) -> None:
        """The dialer hears first that the listener has another key, or is there for something else."""
        for two in (listener(OTHER), listener(purpose=Purpose.ARRIVAL)):
            one = dialer()
            with self.assertRaisesRegex(HandshakeError, "another key"):
                talk(one, two)
            self.assertFalse(one.passed or two.passed)

    def test_a_dialer_without_the_key(self) -> None:
        """The listener passes nobody who answers with anything but the proof."""
        two = listener()
        two.feed(MAGIC + bytes(NONCE_BYTES))
        with self.assertRaisesRegex(HandshakeError, "another key"):
            two.feed(bytes(32))
        self.assertFalse(two.passed)

    def test_replay(self) -> None:
        """All that a dialer has said once is worth nothing on another connection."""
        one, two = dialer(), listener()
        said = one.begin()
        proof = one.feed(two.feed(said))
        again = listener()
        again.feed(said)
        with self.assertRaises(HandshakeError):
            again.feed(proof)
        self.assertFalse(again.passed)

    def test_reflection(self) -> None:
        """The listener's own proof, sent back, proves nothing."""
        two = listener()
        proof = two.feed(MAGIC + bytes(NONCE_BYTES))[-32:]
        with self.assertRaises(HandshakeError):
            two.feed(proof)

    @given(st.binary(min_size=1, max_size=200))
    def test_garbage(self, data: bytes) -> None:
        """Garbage is refused at its first wrong byte, and never passes."""
        two = listener()
        try:
            two.feed(data)
        except HandshakeError:
            self.assertFalse(MAGIC.startswith(data[: len(MAGIC)]) and len(data) <= len(MAGIC) + NONCE_BYTES)
        self.assertFalse(two.passed)


if __name__ == "__main__":
    unittest.main()
