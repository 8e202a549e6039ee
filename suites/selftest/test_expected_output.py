"""Self-tests of harness.expected_output: what passes, what a failure says, and what a rank notes."""

from __future__ import annotations

import os
import sys
import tempfile
import types
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import expecttest

from harness import accepted_output
from harness.accepted_output import Accepted
from harness.expected_output import ExpectationTestCase
from harness.settings import EnvVar

ACCEPT = {EnvVar.ACCEPT: "1"}
NO_ACCEPT = {EnvVar.ACCEPT: ""}


@contextmanager
def accepting_rank() -> Iterator[accepted_output.AcceptedOutputs]:
    """A rank that accepts output; an assertion that it does not note fails, and edits no source."""
    error = AssertionError("the assertion was left to expecttest")
    with (
        mock.patch.dict(os.environ, ACCEPT),
        mock.patch.object(expecttest, "assert_expected_inline", side_effect=error),
        accepted_output.collecting() as accepted,
    ):
        yield accepted


class InlineTest(unittest.TestCase):
    """``assertExpectedInline``, without and with accepting."""

    def setUp(self) -> None:
        self.case = ExpectationTestCase()
        # With the variable set, expecttest would edit this file.
        environ = mock.patch.dict(os.environ, NO_ACCEPT)
        environ.start()
        self.addCleanup(environ.stop)

    def test_equal_text_passes(self) -> None:
        """Any object is compared by its ``str``."""
        self.case.assertExpectedInline("one\ntwo", """one\ntwo""")
        self.case.assertExpectedInline(3, """3""")

    def test_other_text_fails(self) -> None:
        """The failure names the variable that accepts the new text."""
        with self.assertRaisesRegex(AssertionError, "EXPECTTEST_ACCEPT=1"):
            self.case.assertExpectedInline("new", """old""")

    def test_ignored_lines(self) -> None:
        """Comment lines and empty lines are left out of both texts, each kind on request only."""
        actual, expected = "# now\n\nx = 1", "  # then\nx = 1"
        self.case.assertExpectedInline(actual, expected, ignore_comments=True, ignore_empty_lines=True)
        for flags in ({"ignore_comments": True}, {"ignore_empty_lines": True}):
            with self.subTest(flags=flags), self.assertRaises(AssertionError):
                self.case.assertExpectedInline(actual, expected, **flags)

    def test_a_rank_notes_what_it_accepts(self) -> None:
        """While ranks collect, a new text is noted with the line of the assertion and nothing fails."""
        with accepting_rank() as accepted:
            self.case.assertExpectedInline("new", """old""")
            line = sys._getframe().f_lineno - 1
        self.assertEqual(
            accepted.updates, (Accepted(__file__, line, self.case.id(), None, old="old", new="new"),)
        )

    def test_skip_counts_the_callers_of_the_assertion(self) -> None:
        """With ``skip=1`` the noted line is that of the helper's caller."""

        def helper(actual: str, expected: str) -> None:
            self.case.assertExpectedInline(actual, expected, skip=1)

        with accepting_rank() as accepted:
            helper("new", """old""")
            line = sys._getframe().f_lineno - 1
        self.assertEqual([update.lineno for update in accepted.updates], [line])

    def test_a_rank_notes_an_unchanged_text_as_it_is(self) -> None:
        """A text that differs in ignored lines only is noted as the literal in the source."""
        with accepting_rank() as accepted:
            self.case.assertExpectedInline("# now\nx", """# then\nx""", ignore_comments=True)
        self.assertEqual([(u.old, u.new) for u in accepted.updates], [("# then\nx", "# then\nx")])

    def test_collecting_alone_accepts_nothing(self) -> None:
        """Without EXPECTTEST_ACCEPT a collecting rank fails as any other process."""
        with accepted_output.collecting() as accepted, self.assertRaises(AssertionError):
            self.case.assertExpectedInline("new", """old""")
        self.assertEqual(accepted.updates, ())


class FileTest(unittest.TestCase):
    """``assertExpected``, with a test module in a folder of its own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        module = types.ModuleType("module_of_the_test")
        module.__file__ = str(Path(folder.name).resolve() / "test_module.py")
        loaded = mock.patch.dict(sys.modules, {module.__name__: module})
        loaded.start()
        self.addCleanup(loaded.stop)
        names = {"__module__": module.__name__, "__qualname__": "Case", "test_it": lambda self: None}
        self.case = type("Case", (ExpectationTestCase,), names)("test_it")
        self.file = Path(module.__file__).parent / "expect" / "Case.test_it.expect"

    def test_accepting_writes_the_file_that_then_passes(self) -> None:
        """The file is made on the first acceptance; a ``subname`` gives a file of its own."""
        with mock.patch.dict(os.environ, ACCEPT):
            self.case.assertExpected("text\n")
            self.case.assertExpected("other", "sub")
        self.assertEqual(self.file.read_text(), "text\n")
        self.assertEqual(self.file.with_name("Case.test_it-sub.expect").read_text(), "other")
        with mock.patch.dict(os.environ, NO_ACCEPT):
            self.case.assertExpected("text\n")
            with self.assertRaisesRegex(AssertionError, "accepts the new text in .*Case.test_it.expect"):
                self.case.assertExpected("changed\n")

    def test_a_missing_file_fails(self) -> None:
        """The failure shows the text that accepting would write."""
        with (
            mock.patch.dict(os.environ, NO_ACCEPT),
            self.assertRaisesRegex(AssertionError, "does not exist; .*\n\nthe text"),
        ):
            self.case.assertExpected("the text")

    def test_a_rank_notes_in_place_of_writing(self) -> None:
        """While ranks collect, the file is left to the parent."""
        with accepting_rank() as accepted:
            self.case.assertExpected("text", "sub")
        path = str(self.file.with_name("Case.test_it-sub.expect"))
        self.assertEqual(accepted.updates, (Accepted(path, None, self.case.id(), "sub", None, "text"),))
        self.assertFalse(self.file.parent.exists())

    def test_only_text_is_compared(self) -> None:
        """A value that is not a string is a TypeError and not a failure."""
        with self.assertRaisesRegex(TypeError, "compares text, and got a int"):
            self.case.assertExpected(3)


if __name__ == "__main__":
    unittest.main()
