"""Tests that builtins and standard functions are the original ones for the harness's code only."""

from __future__ import annotations

import builtins
import json
import pkgutil
import socket
import sys
import unittest
from collections.abc import Callable
from unittest import mock

from harness.system import originals
from harness.system.originals import TestPatches, harness_code

# Calls of builtins that the module itself has to do without while they are replaced.
_builtin = vars(builtins).__setitem__


def dump() -> str:
    """Calls a function that may be replaced."""
    return json.dumps("x")


class OriginalsTest(unittest.TestCase):
    """``patched``, ``restore`` and ``apply``, on every name."""

    def setUp(self) -> None:
        # On Python 3.10 pytest's exceptiongroup replaces methods of traceback.TracebackException.
        self.addCleanup(originals.apply, originals.restore())
        self.addCleanup(originals.restore)
        self.assertEqual(originals.patched(), ())

    def test_every_name(self) -> None:
        """Each name that is listed exists, and is found and put back where it is replaced."""
        for where, names in originals.USED.items():
            owner = pkgutil.resolve_name(where)
            for name in names.split():
                with self.subTest(where=where, name=name):
                    before = getattr(owner, name)
                    with mock.patch.object(owner, name):
                        now = getattr(owner, name)
                        found = originals.restore()
                        self.assertEqual([str(patch) for patch in found], [f"{where}.{name}"])
                        self.assertIs(getattr(owner, name), before)
                        originals.apply(found)
                        self.assertIs(getattr(owner, name), now)

    def test_every_builtin(self) -> None:
        """Each builtin is found and put back, although it is then missing for everybody."""
        for name, value in list(vars(builtins).items()):
            if callable(value):
                _builtin(name, object())
                found = originals.restore()
                self.assertIs(vars(builtins)[name], value, name)
                self.assertEqual([str(patch) for patch in found], [name])

    def test_all_at_once(self) -> None:
        """Builtins that the module itself uses may be replaced together."""
        for name in ("isinstance", "list", "map", "setattr", "str", "tuple", "vars", "zip"):
            _builtin(name, None)
        found = originals.restore()
        self.assertEqual(len(found), 8)
        self.assertEqual(originals.patched(), ())

    def test_inherited(self) -> None:
        """A method that a class inherits is inherited again, and not its own."""
        with mock.patch("socket.socket.send"):
            found = originals.restore()
            self.assertNotIn("send", vars(socket.socket))
            originals.apply(found)
            self.assertIn("send", vars(socket.socket))

    def test_missing(self) -> None:
        """A module that is missing in sys.modules is there again, and missing where that is put in place."""
        del sys.modules["json"]
        found = originals.restore()
        self.assertEqual([str(patch) for patch in found], ["sys.modules.json"])
        self.assertIs(sys.modules["json"], json)
        originals.apply(found)
        self.assertNotIn("json", sys.modules)

    def test_harness_code(self) -> None:
        """A decorated function sees the originals, and its caller what it replaced, after an error too."""
        for error in (None, ValueError):
            with self.subTest(error=error), mock.patch("json.dumps", str):
                seen = harness_code(mock.Mock(side_effect=error or dump, __name__="f"))
                if error is not None:
                    self.assertRaises(error, seen)
                else:
                    self.assertEqual(seen(), '"x"')
                self.assertIs(json.dumps, str)


class TestPatchesTest(unittest.TestCase):
    """``TestPatches``, by which tests and the harness take turns in one process."""

    def setUp(self) -> None:
        self.addCleanup(originals.restore)

    def test_left(self) -> None:
        """What a test leaves is named once; what was so before it, and what an import did, is not."""
        setattr(json, "loads", int)  # noqa: B010 - to the type checker it is another function
        patches, original = TestPatches(originals.restore()), json.dumps
        rows: tuple[tuple[str, Callable[[], None], tuple[str, ...]], ...] = (
            ("nothing", lambda: None, ()),
            ("a test", lambda: setattr(json, "dumps", str), ("json.dumps",)),
            ("the next test", lambda: None, ()),
            ("an import", lambda: setattr(json, "load", int), ()),
            ("a test that puts back", lambda: setattr(json, "dumps", original), ()),
        )
        for name, turn, left in rows:
            with self.subTest(name):
                patches.put_in_place()
                self.assertIs(json.loads, int)
                turn()
                if name == "an import":
                    patches.accept_import()
                patches.put_away(originals.restore())
                self.assertEqual(patches.left, left)
                self.assertEqual(originals.patched(), ())


if __name__ == "__main__":
    unittest.main()
