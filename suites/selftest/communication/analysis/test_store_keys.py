"""Tests under which names ranks know the keys of stores: tables of what some wait for and others have set."""

from __future__ import annotations

import unittest

from harness.communication.analysis.store_keys import may_be_set, names_of, workers_of
from harness.communication_call import Kind
from suites.selftest.communication.samples import call, sets_key, waits_for_key


class StoreKeysTest(unittest.TestCase):
    """A rank that waits, and one that sets a key."""

    def test_names(self) -> None:
        """All keys as one name, and each by itself, behind what the store puts before them."""
        self.assertEqual(names_of(waits_for_key("a")), ("a", "a"))
        self.assertEqual(names_of(waits_for_key("a, b", prefix="x/")), ("x/a, b", "x/a", "x/b"))

    def test_may_be_set(self) -> None:
        """A key in a store with another prefix is another one, unless one of the prefixes may be longer."""
        for wanted, known, expected in (
            (("a/key", ""), ("key", ""), True),  # in a store with the prefix "a"
            (("key", ""), ("a/key", ""), True),
            (("b/key", ""), ("a/key", ""), False),
            (("a, b", ""), ("a, b", ""), True),  # one key, or two that were set at once
            (("a, b", ""), ("a", ""), False),
            (("a", ""), ("a, b", ""), True),
            (("k", "a/"), ("k", "a/"), True),
            (("k", "a/"), ("k", "b/"), False),
            (("k", "a/"), ("k", "b/a/"), True),
            (("k", ""), ("k", "b/"), True),
        ):
            with self.subTest(wanted=wanted, known=known):
                waiting = waits_for_key(*wanted)
                self.assertEqual(may_be_set({0: [waiting], 1: [sets_key(*known)]}, waiting), expected)

    def test_who_waits_does_not_set(self) -> None:
        """Another rank that waits for the key has not set it."""
        waiting = waits_for_key()
        self.assertFalse(may_be_set({0: [waiting], 1: [waits_for_key()]}, waiting))

    def test_workers(self) -> None:
        """Those in the same operation, on what may be the same key, the rank's own call included."""
        mine, same, other, get = (
            call(operation, kind=Kind.STORE, key=key, group="", members=())
            for operation, key in (("barrier", "k"), ("barrier", "p/k"), ("barrier", "j"), ("get", "k"))
        )
        self.assertEqual(workers_of({0: [mine], 1: [get, same], 2: [other]}, mine), [mine, same])


if __name__ == "__main__":
    unittest.main()
