"""Tests that the graphs of two interpreters are recorded and compared, and that no source file is changed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from harness import TestCase
from tools import graph_diff
from tools.graph_diff import Recorded, Recording

# A module whose texts depend on a variable, as graphs do on a release. Nothing in it is what it expects.
SAMPLE = '''
    import os, unittest
    from harness import TestCase

    NEWER = os.environ.get("SAMPLE") == "newer"

    class SampleTest(TestCase):
        def test_same(self):
            self.assertExpectedInline("forward(a)\\n  return (a,)", """x""")

        def test_renamed(self):
            node = "mul_1" if NEWER else "mul"
            self.assertExpectedInline("forward(a)\\n  add = aten.add(a, 1)\\n  return (add,)", """x""")
            self.assertExpectedInline(f"backward(b)\\n  {node} = mul(b, 2)\\n  return ({node},)", """x""")

        def test_refused(self):
            if NEWER:
                raise RuntimeError(f"{object()} is not supported\\nany more")
            self.assertExpectedInline("forward()", """x""")

        def test_keyed(self):
            if NEWER:
                self.assertExpectedInline("new", """x""")
            else:
                self.assertExpectedInline("old", """x""")

        @unittest.skip("not here")
        def test_skipped(self):
            self.assertExpectedInline("never", """x""")

        def test_file(self):
            self.assertExpected("in a file", "one")

        def test_without_text(self):
            self.assertEqual(1, 1)
'''
ON_RANKS = '''
    from harness import MultiProcessTestCase

    class OnRanksTest(MultiProcessTestCase):
        world_size = 2

        def test_text(self):
            self.assertExpectedInline(f"a graph of {self.world_size} ranks", """x""")
'''


class InTheTreeTest(TestCase):
    """A case of this tree whose test a recorded file can name."""

    def test_text(self) -> None:
        self.assertExpectedInline("forward()", """forward()""")


class GraphDiffTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name).resolve()
        path = list(sys.path)
        self.addCleanup(setattr, sys, "path", path)

    def module(self, source: str) -> str:
        """Writes a test module with this source and a unique name; returns its path."""
        path = self.root / f"test_{self._testMethodName}.py"
        path.write_text(textwrap.dedent(source))
        self.addCleanup(sys.modules.pop, path.stem, None)
        return str(path)

    def interpreter(self, sample: str) -> str:
        """Writes a script that runs this interpreter with ``SAMPLE`` set; returns its path."""
        path = self.root / f"python-{sample}"
        path.write_text(f'#!/bin/sh\nSAMPLE={sample} exec {sys.executable} "$@"\n')
        path.chmod(0o755)
        return str(path)

    def recorded(self, torch: str, **tests: Recorded) -> str:
        path = self.root / f"{torch}.json"
        path.write_text(Recording(torch, tests).to_json())
        return str(path)

    def run_tool(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = graph_diff.main(arguments)
        return code, out.getvalue(), err.getvalue()

    def refused(self, said: str, *arguments: str) -> None:
        code, out, err = self.run_tool(*arguments)
        self.assertEqual((code, out), (2, ""))
        self.assertIn(said, err)

    # -- recording

    def test_recording(self) -> None:
        module = self.module(SAMPLE)
        before = Path(module).read_text()
        file = self.root / "recorded.json"
        self.assertEqual(self.run_tool("--record", str(file), module), (0, "", ""))
        recording = Recording.from_json(file.read_text())
        prefix = f"{Path(module).stem}.SampleTest"
        self.assertEqual(
            {test.removeprefix(f"{prefix}."): recorded for test, recorded in recording.tests.items()},
            {
                "test_same": Recorded(("forward(a)\n  return (a,)",)),
                "test_renamed": Recorded(
                    (
                        "forward(a)\n  add = aten.add(a, 1)\n  return (add,)",
                        "backward(b)\n  mul = mul(b, 2)\n  return (mul,)",
                    )
                ),
                "test_refused": Recorded(("forward()",)),
                "test_keyed": Recorded(("old",)),
                "test_skipped": Recorded((), "a skip: not here"),
                "test_file": Recorded(("in a file",)),
                "test_without_text": Recorded(()),
            },
        )
        self.assertEqual(Path(module).read_text(), before)
        self.assertFalse((self.root / "expect").exists())
        self.assertNotIn("EXPECTTEST_ACCEPT", os.environ)

    def test_recording_of_ranks(self) -> None:
        """What all ranks compare is recorded as one text, and is not written into the source."""
        module = self.module(ON_RANKS)
        before = Path(module).read_text()
        recording = graph_diff.record([module])
        self.assertEqual(list(recording.tests.values()), [Recorded(("a graph of 2 ranks",))])
        self.assertEqual(Path(module).read_text(), before)

    def test_fixture_that_fails(self) -> None:
        module = self.module(
            """
            import unittest

            class SampleTest(unittest.TestCase):
                @classmethod
                def setUpClass(cls):
                    raise OSError("no ground")

                def test_never(self):
                    pass
            """
        )
        ((test, recorded),) = graph_diff.record([module]).tests.items()
        self.assertIn("setUpClass", test)
        self.assertEqual(recorded, Recorded((), "OSError: no ground"))

    # -- comparing

    def test_interpreters(self) -> None:
        module = self.module(SAMPLE)
        old, new = self.interpreter("older"), self.interpreter("newer")
        code, out, _ = self.run_tool("--old", old, "--new", new, module)
        self.assertEqual(code, 1)
        *diffs, summary = out.strip().split("\n\n")
        self.assertRegex(summary, r"^torch (\S+) -> \1: 3 of 7 tests differ$")
        renamed = next(diff for diff in diffs if "test_renamed" in diff).splitlines()
        self.assertRegex(renamed[0], r"^--- \S+\.SampleTest\.test_renamed \(torch \S+\)$")
        self.assertEqual(
            renamed[3:],
            [
                "   return (add,)",
                " ----",
                " backward(b)",
                "-  mul = mul(b, 2)",
                "-  return (mul,)",
                "+  mul_1 = mul(b, 2)",
                "+  return (mul_1,)",
            ],
        )
        refused = next(diff for diff in diffs if "test_refused" in diff).splitlines()
        self.assertEqual(
            refused[3:],
            ["-forward()", "+ended by RuntimeError: <object object at 0x...> is not supported"],
        )
        keyed = next(diff for diff in diffs if "test_keyed" in diff).splitlines()
        self.assertEqual(keyed[3:], ["-old", "+new"])
        code, out, _ = self.run_tool("--old", old, "--new", old, f"{module}::SampleTest::test_renamed")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^torch (\S+) -> \1: 0 of 1 tests differ\n$")

    def test_recorded_files(self) -> None:
        old = self.recorded(
            "2.12.0", a=Recorded(("one", "two")), b=Recorded(("same",)), c=Recorded(("gone",))
        )
        new = self.recorded("2.13.0", a=Recorded(("one", "2")), b=Recorded(("same",)), d=Recorded(("come",)))
        code, out, _ = self.run_tool("--old", old, "--new", new)
        self.assertEqual(code, 1)
        self.assertEqual(
            out,
            "--- a (torch 2.12.0)\n+++ a (torch 2.13.0)\n@@ -1,3 +1,3 @@\n one\n ----\n-two\n+2\n\n"
            "--- c (torch 2.12.0)\n+++ c (torch 2.13.0)\n@@ -1 +0,0 @@\n-gone\n\n"
            "--- d (torch 2.12.0)\n+++ d (torch 2.13.0)\n@@ -0,0 +1 @@\n+come\n\n"
            "torch 2.12.0 -> 2.13.0: 3 of 4 tests differ\n",
        )
        code, out, _ = self.run_tool("--old", old, "--new", old)
        self.assertEqual((code, out), (0, "torch 2.12.0 -> 2.12.0: 0 of 3 tests differ\n"))

    def test_recorded_file_says_which_tests(self) -> None:
        file = self.root / "old.json"
        file.write_text(
            Recording("2.12.0", {f"{__name__}.InTheTreeTest.test_text": Recorded(("backward()",))}).to_json()
        )
        code, out, err = self.run_tool("--old", str(file))
        self.assertEqual((code, err), (1, ""))
        self.assertRegex(
            out,
            r"(?s)^--- .*test_text \(torch 2\.12\.0\)\n.*\n-backward\(\)\n\+forward\(\)\n\n.* 1 of 1 tests",
        )

    # -- nothing to compare, and wrong arguments

    def test_nothing_recorded(self) -> None:
        module = self.module(SAMPLE)
        code, out, err = self.run_tool(
            "--old", sys.executable, "--new", sys.executable, f"{module}::SampleTest::test_without_text"
        )
        self.assertEqual((code, out), (5, ""))
        self.assertIn("no test of these compares anything", err)

    def test_interpreter_that_dies(self) -> None:
        module = self.module("import os\nos._exit(9)\n")
        code, out, err = self.run_tool("--old", sys.executable, "--new", sys.executable, module)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("did not come to the end of the tests (exit code 9)", err)

    def test_wrong_arguments(self) -> None:
        file = self.recorded("2.13.0", a=Recorded(("one",)))
        broken = self.root / "broken.json"
        self.refused("--old names the interpreter")
        self.refused("--old names the interpreter", "aot.test_export")
        self.refused("name the tests whose graphs to compare", "--old", sys.executable)
        self.refused("name the tests whose graphs to record", "--record", str(broken))
        self.refused("a recorded file says which tests", "--old", file, "--new", file, "aot.test_export")
        self.refused("--record is for one interpreter", "--record", str(broken), "--old", file, "aot")
        self.refused("no interpreter that can be run", "--old", str(self.root / "none"), "aot.test_export")
        self.refused("none.json cannot be read: No such file", "--old", str(self.root / "none.json"))
        self.refused("is no suite, module, path or test", "--record", str(broken), "aot.test_exprot")
        self.refused("cannot be written", "--record", str(self.root), self.module(SAMPLE))
        for text, said in (
            ("", "is no file that --record wrote"),
            ("[]", "a part of it is missing"),
            ("{}", "a part of it is missing (KeyError('format'))"),
            (json.dumps({"format": 0}), "its format is 0, not 1"),
        ):
            broken.write_text(text)
            self.refused(said, "--old", str(broken), "--new", file)


if __name__ == "__main__":
    unittest.main()
