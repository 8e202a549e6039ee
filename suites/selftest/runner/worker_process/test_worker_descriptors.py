"""Tests that a test that abuses its worker's descriptors, or a module the zygote's, hurts itself alone."""

from __future__ import annotations

import unittest

from suites.selftest.runner.runs import RunnerCase

# What the abusing tests use: their worker's three descriptors.
HELP = """
import json, socket, struct

def find(kind, but=()):
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        if int(name) > 2 and target.startswith(kind) and target not in but:
            return int(name)

def write(data):
    os.write(find("socket:"), data)

def send(kind, **fields):
    frame = json.dumps({"kind": kind, **fields}).encode()
    write(struct.pack(">I", len(frame)) + frame)

def record(**fields):
    return {"id": "test_w.T.test_record", "status": "passed", **fields}

def stack():
    return find("pipe:", but=(os.readlink("/proc/self/fd/1"),))
"""

# By the name of its test: what a test does, and words of the reason for its error; none for a pass.
ABUSES: dict[str, tuple[str, str]] = {
    "prints": ("write(b'hello, who is there?')", "something else wrote"),
    "nests": ("write(struct.pack('>I', 100_000) + b'[' * 100_000)", "not a message"),
    "endless": ("send('Began', seq=1e999, at_s=1.0)", "not a message"),
    "begins": ("send('Began', seq=77, at_s=1.0)", "the beginning of another test"),
    "ends_another": ("send('Ended', seq=77, record={**record(), 'id': 'x'})", "the end of another test"),
    "ends_with_words": ("send('Ended', seq=77, record=record(duration_s='long'))", "not a test record"),
    "ends_with_nothing": ("send('Ended', seq=77, record=None)", "not a test record"),
    "debugs": ("send('Debugging', on=True)", "a worker sent Debugging"),
    "is_a_zygote": ("send('Gone', worker='1#1', code=0, peak_memory=0)", "a worker sent Gone"),
    "floods": ("while True: write(b'x' * 65536)", "something else wrote"),
    "floods_stacks": ("os.write(stack(), b'x' * (4 << 20))", ""),
    "shuts_down": ("socket.socket(fileno=find('socket:')).shutdown(2)", "without an outcome"),
}


class WorkerTest(RunnerCase):
    """Tests in workers."""

    def test_abuses(self) -> None:
        """Each abuse is an error of the test that commits it, and every other test has its own verdict."""
        methods = [f"    def test_{name}(self):\n        {body}\n" for name, (body, _) in ABUSES.items()]
        fine = [f"    def test_{name}_next(self): pass\n" for name in ABUSES]
        self.write("test_w", f"{HELP}\nclass T(unittest.TestCase):\n{''.join(methods + fine)}")
        run = self.run_tests("test_w")
        self.assertEqual(run.code, 1, run.out + run.err)
        for name, (_, words) in ABUSES.items():
            with self.subTest(name):
                found = run.of(f".test_{name}")
                self.assertEqual(found.ok, not words, found.reason)
                self.assertIn(words, found.reason)
                self.assertTrue(run.of(f".test_{name}_next").ok)


class ZygoteTest(RunnerCase):
    """Modules, which the zygote imports."""

    def test_abuses(self) -> None:
        """A module whose import abuses the zygote's socket is an error, and other modules run."""
        for name in ("prints", "nests", "endless", "is_a_zygote", "shuts_down"):
            self.write(f"test_{name}", f"{HELP}\n{ABUSES[name][0]}\n")
        self.write("test_closes", "os.closerange(3, 1000)\n")
        self.write("test_z", "class T(unittest.TestCase):\n    def test_fine(self): pass\n")
        run = self.run_tests(".")
        self.assertTrue(run.of("test_fine").ok, run.out + run.err)
        for name in ("prints", "nests", "endless", "shuts_down", "closes"):
            with self.subTest(name):
                self.assertIn("ended the process", run.of(f"test_{name}").details)


if __name__ == "__main__":
    unittest.main()
