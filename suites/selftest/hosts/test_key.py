"""Tests where the key of a run comes from, and that a key which others can read is refused."""

from __future__ import annotations

import os
import stat
import tempfile
import unittest

from harness.errors import UsageError
from harness.hosts import key

KEY = "k" * key.LEAST_LENGTH


class KeyTest(unittest.TestCase):
    """Keys from the environment and from files."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "keys", "run")

    def test_new(self) -> None:
        """New keys differ and are long enough."""
        self.assertNotEqual(key.new_key(), key.new_key())
        self.assertGreaterEqual(len(key.checked(key.new_key(), "here")), key.LEAST_LENGTH)

    def test_file(self) -> None:
        """A file that is made is its owner's alone, and is read again."""
        made = key.make_file(self.path)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.assertEqual(key.from_file(self.path), made)
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["run"])

    def test_refused(self) -> None:
        """A file that others can read, that is not there, or has a short key, is refused with what to do."""
        key.make_file(self.path, KEY)
        os.chmod(self.path, 0o640)
        for path, says in ((self.path, "chmod 600"), (f"{self.path}.no", "cannot be read")):
            with self.subTest(says), self.assertRaisesRegex(UsageError, says):
                key.from_file(path)
        with self.assertRaisesRegex(UsageError, "--new-key"):
            key.make_file(f"{self.path}.short", "short")

    def test_given(self) -> None:
        """The variable goes before the file; without either there is none."""
        key.make_file(self.path, "f" * key.LEAST_LENGTH)
        for environ, found in (
            ({}, None),
            ({"HARNESS_KEY": ""}, None),
            ({"HARNESS_KEY_FILE": self.path}, b"f" * key.LEAST_LENGTH),
            ({"HARNESS_KEY": KEY, "HARNESS_KEY_FILE": self.path}, KEY.encode()),
        ):
            with self.subTest(environ):
                self.assertEqual(key.given(environ), found)

    def test_awaited(self) -> None:
        """A file that the controller has made counts where nothing is given; else there is an error."""
        with self.assertRaisesRegex(UsageError, "set HARNESS_KEY"):
            key.awaited({}, self.path, 0.0)
        made = key.make_file(self.path)
        self.assertEqual(key.awaited({}, self.path, 0.0), made)
        self.assertEqual(key.awaited({"HARNESS_KEY": KEY}, self.path, 0.0), KEY.encode())


if __name__ == "__main__":
    unittest.main()
