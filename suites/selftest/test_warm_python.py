"""Tests commands in forks of a warm interpreter: a new interpreter is the oracle of what they see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from suites.selftest import warm_python
from suites.selftest.forked_case import ForkedCase

TREE = Path(__file__).resolve().parents[2]
# What a program sees of how it was started.
PROGRAM = """
import atexit, os, pickle, signal, sys, tempfile, threading
class Own:
    pass
atexit.register(lambda: print("at exit", sys.modules["__main__"] is main))
main = sys.modules["__main__"]
print(__name__, sys.argv, sys.orig_argv, sys.path, os.getcwd(), sorted(os.environ.items()))
print(tempfile.gettempdir())
print(__builtins__ is main.__builtins__, getattr(main, "__file__", None))
print(main.__spec__ and main.__spec__.name)
print(pickle.loads(pickle.dumps(Own())).__class__ is Own, type(__loader__).__name__)
out, signals = sys.stdout, (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
print(sys.flags, sys.warnoptions, sys.stdin.read(), out.isatty(), out.encoding, out.line_buffering)
print([signal.getsignal(each) for each in signals], signal.pthread_sigmask(0, ()))
print(sorted(name for name in sys.modules if name.split(".")[0] in ("harness", "suites", "warm_server")))
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")), len(threading.enumerate()))
print("on standard error", file=sys.stderr)
threading.Thread(target=lambda: print("of a thread")).start()
"""
# Starts an interpreter, after it has changed what a new one does not have.
STARTS = """
import atexit, json, logging, signal, subprocess, sys, tempfile, unittest, wave
import harness
atexit.register(print, "of the parent")
signal.signal(signal.SIGTERM, lambda *_: None)
sys.path.append("/of/the/parent")
tempfile.tempdir = "/of/the/parent"
print("not written yet", end=" ")
left = open("left", "w")
left.write("once")
with open("/dev/null") as more:
    words = [sys.executable, *sys.argv[1:]]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
print(json.dumps([done.returncode, done.stdout, done.stderr]))
left.close()
print(open("left").read())
"""
ENDS = {
    "pass": 0,
    "import sys; sys.exit(7)": 7,
    "import sys; sys.exit('words')": 1,
    "import sys; sys.exit(True)": 1,
    "import sys; sys.exit(300)": 44,
    "import sys; sys.exit(-1)": 255,
    "import sys; sys.stdout.close(); sys.stderr = None": 0,
    "import sys, types; sys.stdout = types.SimpleNamespace(closed=False)": 120,
    "import os; os._exit(9)": 9,
    "raise ValueError": 1,
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": -9,
}


class RunTest(unittest.TestCase):
    """``run``, on small programs."""

    maxDiff = None

    def setUp(self) -> None:
        """Makes a directory with the program."""
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = Path(made.name).resolve()
        (self.directory / "program.py").write_text(PROGRAM)
        self.environ = {**os.environ, "PYTHONPATH": "here:/there", "OF_THE_TEST": "1"}
        self.environ.pop("HOME", None)

    def test_as_new(self) -> None:
        """A program of each kind sees what it sees in a new interpreter."""
        for arguments in (("program.py", "-x", "y"), ("-m", "program", "-x"), ("-c", PROGRAM, "-x")):
            for merged in (True, False):
                with self.subTest(arguments[0], merged=merged):
                    new = subprocess.run(
                        [sys.executable, *arguments],
                        cwd=self.directory, env=self.environ, stdin=subprocess.DEVNULL, text=True,
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                    )  # fmt: skip
                    self.assertEqual(new.returncode, 0, new.stdout)
                    warm = warm_python.run(
                        arguments, cwd=self.directory, env=self.environ, timeout=300, merged=merged
                    )
                    self.assertEqual(vars(warm), vars(new))

    def test_ends(self) -> None:
        """The exit code is the program's, or the signal's."""
        for program, code in ENDS.items():
            with self.subTest(program):
                self.assertEqual(self.warm(program).returncode, code)

    def test_children_as_new(self) -> None:
        """An interpreter that a program starts sees what it sees where the program is a new interpreter."""
        environ = {**self.environ, "PYTHONPATH": str(TREE)}
        for arguments in (("program.py", "-x", "y"), ("-m", "program", "-x"), ("-c", PROGRAM, "-x")):
            with self.subTest(arguments[0]):
                given = ("-c", STARTS, *arguments)
                new = warm_python.run_new(given, cwd=self.directory, env=environ, timeout=300)
                warm = warm_python.run(given, cwd=self.directory, env=environ, timeout=300)
                self.assertEqual((new.returncode, new.stdout), (0, warm.stdout))
        self.assertEqual(self.child("import sys; print('torch' in sys.modules)")[1], "True\n")

    def test_ends_of_children(self) -> None:
        """The exit code is the program's, or the signal's."""
        for program, code in ENDS.items():
            with self.subTest(program):
                if "SimpleNamespace" not in program:
                    self.assertEqual(self.child(program)[0], code)

    def test_first_child_as_new(self) -> None:
        """So does the first interpreter that a run starts; it is a fork, and one after it is none."""
        program = PROGRAM.replace('"harness", ', "")
        (self.directory / "program.py").write_text(program)
        for arguments in (("program.py", "-x", "y"), ("-m", "program", "-x"), ("-c", program, "-x")):
            with self.subTest(arguments[0]):
                new = warm_python.run_new(("-c", STARTS, *arguments), merged=False, **self.of_tree)
                warm = warm_python.run_runner(("-c", STARTS, *arguments), **self.of_tree)
                self.assertEqual(vars(warm), {**vars(new), "args": warm.args})
        ask = "import sys; print('harness.runner.command' in sys.modules, 'torch' in sys.modules)"
        self.assertEqual(self.first_child(ask)[1], "True False\n")
        twice = f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '-c', {ask!r}])"
        warm = warm_python.run_runner(("-c", twice), **self.of_tree)
        self.assertEqual(warm.stdout, "True False\nFalse False\n")

    def test_ends_of_first_child(self) -> None:
        """The exit code is the program's, or the signal's; one that is not needed has ended before."""
        for program, code in ENDS.items():
            with self.subTest(program):
                if "SimpleNamespace" not in program:
                    self.assertEqual(self.first_child(program)[0], code)
        children = "import os; print(open(f'/proc/self/task/{os.getpid()}/children').read())"
        waiting = warm_python.run_runner(("-c", children), **self.of_tree).stdout.strip()
        self.assertTrue(waiting.isdigit(), waiting)
        self.assertFalse(Path("/proc", waiting).exists())

    @property
    def of_tree(self) -> dict[str, Any]:
        """The keywords of a run that imports from the tree."""
        return {"cwd": self.directory, "env": {**self.environ, "PYTHONPATH": str(TREE)}, "timeout": 300}

    def first_child(self, program: str) -> tuple[int, str, str]:
        """How a program's text ends and what it prints where it is the first child of a run."""
        run = warm_python.run_runner(("-c", STARTS, "-c", program), **self.of_tree)
        code, out, err = json.loads(run.stdout.splitlines()[0].removeprefix("not written yet "))
        return code, out, err

    def child(self, program: str) -> tuple[int, str, str]:
        """How a program's text ends and what it prints where another program starts it."""
        given = ("-c", STARTS, "-c", program)
        environ = {**self.environ, "PYTHONPATH": str(TREE)}
        run = warm_python.run(given, cwd=self.directory, env=environ, timeout=300)
        code, out, err = json.loads(run.stdout.splitlines()[0].removeprefix("not written yet "))
        return code, out, err

    def test_torch_is_there(self) -> None:
        """Unlike a new interpreter it has torch; unless that would read another variable or option."""
        ask = "import sys; print('torch' in sys.modules)"
        self.assertEqual(self.warm(ask).stdout, "True\n")
        self.assertEqual(self.warm(ask, OMP_NUM_THREADS="3").stdout, "False\n")
        self.assertEqual(self.warm(ask, PYTHONWARNINGS="error").stdout, "False\n")
        run = warm_python.run(("-E", "-c", ask), cwd=self.directory, env=self.environ, timeout=300)
        self.assertEqual(run.stdout, "False\n")

    def test_is_not_taken_apart(self) -> None:
        """What lives until the end is not destroyed, which would take as long as half an import of torch."""
        held = "class Held:\n    def __del__(self): print('destroyed')\nheld = Held()"
        self.assertEqual(self.warm(held).stdout, "")

    def test_hangs(self) -> None:
        """What does not end is ended, and the next command runs."""
        with self.assertRaises(subprocess.TimeoutExpired):
            self.warm("import sys, threading; threading.Event().wait()", timeout=0.5)
        self.assertEqual(self.warm("print(1)").stdout, "1\n")

    def test_several_at_once(self) -> None:
        """Commands that are started run beside each other, and each has its own end."""
        waits, forever = "open('fifo').read(); exit(3)", "import threading; threading.Event().wait()"
        os.mkfifo(self.directory / "fifo")
        first, hangs, second = (
            warm_python.start(("-c", program), cwd=self.directory, env=self.environ)
            for program in (
                waits,
                forever,
                "open('fifo', 'w'); print(2)",
            )
        )
        with first, hangs, second:
            self.assertEqual((second.communicate(timeout=300), second.returncode), (("2\n", None), 0))
            self.assertEqual((first.communicate(timeout=300), first.returncode), (("", None), 3))
            first.kill()  # has ended
            hangs.kill()
        self.assertEqual(hangs.returncode, -9)

    def warm(self, program: str, timeout: float = 300, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program's text."""
        environ = {**self.environ, **variables}
        return warm_python.run(("-c", program), cwd=self.directory, env=environ, timeout=timeout)


class Forked(ForkedCase):
    """What the tests below run; discovery does not find it."""

    def passes(self) -> None:
        """It runs in another process than its caller, and an interpreter that it starts has torch."""
        ask = [sys.executable, "-c", "import sys; sys.exit('torch' in sys.modules)"]
        self.assertEqual(subprocess.run(ask, check=False).returncode, 1)
        self.assertNotEqual(os.environ["CALLER"], str(os.getpid()))
        given = ("-c", "import sys; print('torch' in sys.modules)")
        run = warm_python.run(given, cwd=TREE, env=os.environ, timeout=300)
        self.assertEqual(run.stdout, "True\n")

    def adopts(self) -> None:
        """What a program that is killed leaves behind becomes its child, which it can wait for."""
        shell = ["sh", "-c", "sleep 1000 & echo $!; wait"]
        with subprocess.Popen(shell, stdout=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            left = int(started.stdout.readline())
            started.kill()
        os.kill(left, signal.SIGKILL)
        self.assertEqual(os.waitpid(left, 0), (left, signal.SIGKILL))

    def fails(self) -> None:
        self.fail("as it should")

    def skips(self) -> None:
        self.skipTest("as it should")


class ForkedCaseTest(unittest.TestCase):
    """``ForkedCase``: a test's outcome there is its outcome here."""

    def test_outcomes(self) -> None:
        """A pass, a failure with its words, and a skip with its reason; orphans are the case's own."""
        said = {}
        with mock.patch.dict(os.environ, CALLER=str(os.getpid())):
            for name in ("passes", "adopts", "fails", "skips"):
                result = unittest.TestResult()
                Forked(name).run(result)
                said[name] = (
                    [text.splitlines()[-3:] for _, text in result.failures + result.errors],
                    [reason for _, reason in result.skipped],
                )
                self.assertEqual(result.testsRun, 1)
        self.assertEqual([said["passes"], said["adopts"]], [([], [])] * 2)
        self.assertEqual(said["skips"], ([], ["as it should"]))
        ((failed,), _) = said["fails"]
        self.assertIn("FAILED (failures=1)", failed)


if __name__ == "__main__":
    unittest.main()
