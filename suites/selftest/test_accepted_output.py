"""Self-tests of harness.accepted_output: accepting in one process and in ranks, and ranks that disagree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from pathlib import Path

import harness
from harness import accepted_output
from harness.accepted_output import Accepted
from harness.settings import EnvVar

# Where this process found the harness, for the processes it starts.
SEARCH_PATH = os.pathsep.join([str(Path(harness.__file__).parents[1]), *sys.path])

# A test file whose run is driven by the line at its end. `ranks` plays the ranks of one test: each collects
# on its own, and what it accepted goes through JSON, as on the way to the parent.
MODULE = '''
import json, sys, unittest
from harness import accepted_output
from harness.accepted_output import Accepted
from harness.testcase import TestCase

class T(TestCase):
    rank = 0

    def test_same(self):
        self.assertExpectedInline("one\\ntwo", """old""")
        self.assertExpectedInline(3, """3""")

    def test_later(self):
        self.assertExpectedInline(
            "later",
            """old""",
        )

    def test_by_rank(self):
        self.assertExpectedInline("same", """old""")
        self.assertExpectedInline(f"rank {min(self.rank, 1)}", """rank 0""")

    def test_on_rank_0(self):
        if self.rank == 0:
            self.assertExpectedInline("zero", """old""")

    def test_helper(self):
        self.helper("helped", """old""")

    def helper(self, actual, expected):
        self.assertExpectedInline(actual, expected, skip=1)

    def test_raises(self):
        self.assertExpectedRaisesInline(KeyError, lambda: {}["k"], """old""")

    def test_filtered(self):
        self.substituteExpected("0x1f", "ADDRESS")
        self.assertExpectedInline("at 0x1f", """old""")

    def test_comments(self):
        ignored = {"ignore_comments": True, "ignore_empty_lines": True}
        self.assertExpectedInline("# now\\n\\nx = 1", """# then\\nx = 1""", **ignored)

    def test_loop(self):
        for i in (1, 2):
            self.assertExpectedInline(i, """old""")

    def test_close(self):
        self.assertExpectedInline("one\\ntwo", """old""")
        self.assertExpectedInline("three", """old""")

        self.assertExpectedInline("four", """old""")

    def test_file(self):
        self.assertExpected("first\\n")
        self.assertExpected(f"rank {self.rank // 2}", "sub")

def ranks(name, count=2):
    per_rank = []
    for rank in range(count):
        case = T(name)
        case.rank = rank
        with accepted_output.collecting() as accepted:
            case.debug()
        per_rank.append(json.loads(json.dumps([update.to_json() for update in accepted.updates])))
    return accepted_output.apply([[Accepted.from_json(value) for value in values] for values in per_rank])

if __name__ == "__main__":
    exec(sys.argv[1])
'''


class AcceptCase(unittest.TestCase):
    """Base class: each test gets a copy of the test file and runs code in it in a new process."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name).resolve() / "test_module.py"
        self.path.write_text(MODULE)

    def run_code(self, code: str, *, accept: bool = True) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if name != EnvVar.ACCEPT}
        return subprocess.run(
            [sys.executable, str(self.path), textwrap.dedent(code)],
            env={**environ, "PYTHONPATH": SEARCH_PATH, **({EnvVar.ACCEPT: "1"} if accept else {})},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def accept(self, code: str) -> str:
        done = self.run_code(code)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path.read_text()

    def refuse(self, code: str) -> str:
        """The message of the AcceptError that the code raises, which must not write anything."""
        before = self.path.read_text()
        done = self.run_code(code)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("harness.accepted_output.AcceptError: ", done.stderr)
        self.assertEqual(self.path.read_text(), before)
        return done.stderr.split("harness.accepted_output.AcceptError: ", 1)[1]

    def holds(self, name: str) -> None:
        done = self.run_code(f"T({name!r}).debug()", accept=False)
        self.assertEqual(done.returncode, 0, done.stderr)


class OneProcessTest(AcceptCase):
    """Accepting in an ordinary process."""

    def test_without_accept_the_old_text_holds(self) -> None:
        done = self.run_code("T('test_same').debug()", accept=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("EXPECTTEST_ACCEPT=1", done.stderr)
        self.assertEqual(self.path.read_text(), MODULE)

    def test_accepted_text_holds(self) -> None:
        for name in (
            "test_same",
            "test_later",
            "test_helper",
            "test_raises",
            "test_filtered",
            "test_comments",
        ):
            with self.subTest(name):
                self.accept(f"T({name!r}).debug()")
                self.holds(name)

    def test_comments_are_not_accepted_for_their_own_sake(self) -> None:
        self.assertEqual(self.accept("T('test_comments').debug()"), MODULE)

    def test_file(self) -> None:
        missing = self.run_code("T('test_file').debug()", accept=False)
        self.assertIn(
            "does not exist; EXPECTTEST_ACCEPT=1 makes it, with this text:\n\nfirst", missing.stderr
        )
        self.accept("T('test_file').debug()")
        directory = self.path.parent / "expect"
        texts = {file.name: file.read_text() for file in directory.iterdir()}
        self.assertEqual(texts, {"T.test_file.expect": "first\n", "T.test_file-sub.expect": "rank 0"})
        self.holds("test_file")
        (directory / "T.test_file-sub.expect").write_text("rank 9")
        changed = self.run_code("T('test_file').debug()", accept=False)
        self.assertIn("- rank 9\n", changed.stderr)
        self.accept("T('test_file').debug()")
        self.holds("test_file")


class RanksTest(AcceptCase):
    """Accepting what several ranks noted."""

    def test_agreeing_ranks_write_once(self) -> None:
        done = self.run_code("ranks('test_same', 4)")
        self.assertEqual(done.stdout.count("Accepting new output"), 1, done.stderr)
        self.assertIn('self.assertExpectedInline("one\\ntwo", """\\\none\ntwo""")', self.path.read_text())
        self.holds("test_same")

    def test_ranks_only_note_what_they_would_write(self) -> None:
        self.assertEqual(
            self.accept("accepted_output.apply = lambda per_rank: None; ranks('test_same')"), MODULE
        )

    def test_collecting_without_accept_is_a_plain_assertion(self) -> None:
        done = self.run_code("ranks('test_same')", accept=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("AssertionError", done.stderr)
        self.assertEqual(self.path.read_text(), MODULE)

    def test_later_lines_are_found_after_earlier_edits(self) -> None:
        names = ("test_same", "test_later", "test_helper", "test_raises", "test_filtered")
        self.accept(f"for name in {names}: ranks(name)")
        for name in names:
            self.holds(name)

    def test_an_edit_is_not_taken_for_another_on_its_shifted_line(self) -> None:
        self.accept("ranks('test_close')")
        self.holds("test_close")

    def test_comments_are_not_accepted_for_their_own_sake(self) -> None:
        self.assertEqual(self.accept("ranks('test_comments')"), MODULE)

    def test_later_tests_first(self) -> None:
        self.accept("for name in ('test_raises', 'test_later', 'test_same'): ranks(name)")
        for name in ("test_raises", "test_later", "test_same"):
            self.holds(name)

    def test_the_same_text_is_accepted_twice(self) -> None:
        # A parametrized test, or one test run again in the process that had it accepted.
        self.accept("ranks('test_same'); ranks('test_later'); ranks('test_later'); ranks('test_same')")
        self.holds("test_same")
        self.holds("test_later")

    def test_a_rank_that_did_not_assert_has_no_say(self) -> None:
        self.accept("ranks('test_on_rank_0', 3)")
        self.holds("test_on_rank_0")

    def test_disagreement(self) -> None:
        text = self.refuse("ranks('test_by_rank', 4)")
        self.assertIn("nothing was accepted: ranks disagree on the output at", text)
        self.assertRegex(text, r"test_module.py:\d+\n")
        self.assertIn("rank 0:\nrank 0\n\nranks 1, 2, 3:\nrank 1\n", text)

    def test_disagreement_on_files(self) -> None:
        text = self.refuse("ranks('test_file', 4)")
        self.assertIn("T.test_file-sub.expect\n\nranks 0, 1:\nrank 0\n\nranks 2, 3:\nrank 1\n", text)
        self.assertFalse((self.path.parent / "expect").exists())

    def test_files(self) -> None:
        self.accept("ranks('test_file', 2)")
        self.holds("test_file")

    def test_one_rank_with_two_texts_in_one_place(self) -> None:
        text = self.refuse("ranks('test_loop')")
        self.assertIn("saw two different outputs", text)

    def test_another_text_was_accepted_there_before(self) -> None:
        code = """
            ranks('test_on_rank_0')
            lineno = next(i for i, line in enumerate(open(__file__), 1) if '"zero"' in line)
            update = Accepted(__file__, lineno, "T.test", None, "old", "another")
            before = open(__file__).read()
            try:
                accepted_output.apply([[update]])
            finally:
                assert open(__file__).read() == before
        """
        done = self.run_code(code)
        self.assertEqual(done.returncode, 1)
        self.assertIn("had another text accepted there", done.stderr)

    def test_ranks_that_loaded_the_file_after_an_edit(self) -> None:
        # The parent loaded the file before its own edit, these ranks after it: their lines are right.
        code = """
            ranks('test_same')
            lineno = next(i for i, line in enumerate(open(__file__), 1) if '"helped"' in line)
            accepted_output.apply([[Accepted(__file__, lineno, "T.test_helper", None, "old", "helped")]])
            ranks('test_raises')
        """
        self.accept(code)
        for name in ("test_same", "test_helper", "test_raises"):
            self.holds(name)

    def test_one_lost_place_keeps_all_from_being_written(self) -> None:
        code = """
            lineno = next(i for i, line in enumerate(open(__file__), 1) if '"zero"' in line)
            good = Accepted(__file__, lineno, "T.test", None, "old", "new")
            lost = Accepted(__file__, 1, "T.test", None, "old", "new")
            accepted_output.apply([[good, lost]])
        """
        self.assertIn("no longer holds the text that T.test expects", self.refuse(code))


class AcceptedOutputsTest(unittest.TestCase):
    """Noting outputs, and ``apply`` without any."""

    UPDATE = Accepted("f.py", 3, "m.T.t", None, "old", "new")

    def test_json_round_trip(self) -> None:
        for update in (self.UPDATE, Accepted("f.expect", None, "m.T.t", "sub", None, "ä\n")):
            self.assertEqual(Accepted.from_json(json.loads(json.dumps(update.to_json()))), update)

    def test_regions_nest_and_end(self) -> None:
        self.assertIsNone(accepted_output.current_outputs())
        with accepted_output.collecting() as outer:
            with accepted_output.collecting() as inner:
                self.assertIs(accepted_output.current_outputs(), inner)
            self.assertIs(accepted_output.current_outputs(), outer)
        self.assertIsNone(accepted_output.current_outputs())

    def test_each_thread_has_its_own(self) -> None:
        seen: list[object] = []
        with accepted_output.collecting():
            thread = threading.Thread(target=lambda: seen.append(accepted_output.current_outputs()))
            thread.start()
            thread.join()
        self.assertEqual(seen, [None])

    def test_nothing_to_apply(self) -> None:
        self.assertEqual(accepted_output.apply([]), ())
        self.assertEqual(accepted_output.apply([[], []]), ())
        unchanged = Accepted("no/such/file.py", 3, "m.T.t", None, "old", "old")
        self.assertEqual(accepted_output.apply([[unchanged], [unchanged]]), ())


if __name__ == "__main__":
    unittest.main()
