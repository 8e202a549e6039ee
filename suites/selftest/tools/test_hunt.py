"""Tests the command: its options, its seeds, and how it goes on where it was ended."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import math
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from unittest import mock

import psutil

from tools import hunt
from tools.hunting import journal, page
from tools.hunting.journal import Batch


def options(directory: str, *words: str) -> argparse.Namespace:
    """The options of a command line."""
    return hunt._parser().parse_args(["--dir", directory, *words])


class SeedsTest(unittest.TestCase):
    def seeds(self, directory: str, *words: str) -> list[tuple[str, int]]:
        return list(itertools.islice(hunt._seeds(Path(directory), options(directory, *words)), 4))

    def test_fuzzers_in_turns(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            found = self.seeds(name, "--seed", "1", *("--fuzzer=aot", "--fuzzer=compile") * 2)
        first = hunt.SEEDS
        self.assertEqual(
            found, [("aot", first), ("compile", first), ("aot", first + 1), ("compile", first + 1)]
        )

    def test_shards_have_none_in_common(self) -> None:
        found = []
        for shard in ("1/3", "2/3", "3/3"):
            with tempfile.TemporaryDirectory() as name:
                found += self.seeds(name, "--seed", "1", "--fuzzer", "aot", "--shard", shard)
        self.assertEqual(len(set(found)), len(found))

    def test_goes_on(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            before = self.seeds(name, "--fuzzer", "aot")
            journal.append(Path(name), Batch("aot", before[1][1], 1, 0, 0, 1.0))
            after = self.seeds(name, "--fuzzer", "aot")
        self.assertEqual(after[:3], [before[0], *before[2:]])


class CommandTest(unittest.TestCase):
    def test_wrong_arguments(self) -> None:
        for words in (["--shard", "4/3"], ["--shard", "x"], ["--jobs", "0"], ["--fuzzer", "none"]):
            with self.subTest(words=words), contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaises(SystemExit) as caught:
                    hunt.main(words)
                self.assertEqual(caught.exception.code, 2)

    def test_near_is_for_fuzzers_that_change_programs(self) -> None:
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(hunt.main(["--near", "--fuzzer", "stores", "--dir", name]), 2)
        self.assertIn("--near is not for stores", said.getvalue())

    def test_report(self) -> None:
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(hunt.main(["--report", name]), 0)
            self.assertEqual({path.name for path in Path(name).iterdir()}, {page.HTML, page.MARKDOWN})
        self.assertIn(page.HTML, said.getvalue())

    def test_a_seed_that_breaks_costs_itself(self) -> None:
        future: Future[Batch] = Future()
        future.set_exception(RuntimeError("no directory"))
        with mock.patch.object(hunt, "BROKEN_S", 0), contextlib.redirect_stdout(io.StringIO()) as said:
            hunt._ended(future, "aot", 3, Path())
        self.assertIn("aot 3 broke: RuntimeError: no directory", said.getvalue())
        died: Future[Batch] = Future()
        died.set_exception(BrokenProcessPool())
        with self.assertRaises(BrokenProcessPool):
            hunt._ended(died, "aot", 3, Path())

    def test_the_seed_of_a_process_that_died_is_told(self) -> None:
        died: Future[Batch] = Future()
        died.set_exception(BrokenProcessPool())
        pool = mock.MagicMock()
        pool.__enter__.return_value.submit.return_value = died
        pools = mock.patch.object(hunt, "pool_of", side_effect=[pool, KeyboardInterrupt])
        with pools, contextlib.redirect_stdout(io.StringIO()) as said, self.assertRaises(KeyboardInterrupt):
            hunt._run(1, math.inf, Path(), {}, iter([("aot", 3), ("aot", 4)]), near=False)
        self.assertEqual(said.getvalue(), "a process of the hunt died, with one of these seeds: aot 3\n")

    def test_its_processes_end_with_it(self) -> None:
        """Those of a hunt that is killed, too, which cannot end them."""
        code = "import os, sys; from tools import hunt; pool = hunt.pool_of(1)"
        code += "; print(pool.submit(os.getpid).result(), flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", code], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as command:
            assert command.stdout is not None
            process = psutil.Process(int(command.stdout.readline()))
            command.kill()
        _, alive = psutil.wait_procs([process], timeout=60)
        self.assertEqual(alive, [])

    def test_no_time_is_no_find(self) -> None:
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(hunt.main(["--minutes", "0", "--dir", name]), 0)
        self.assertIn("new: 0", said.getvalue())


if __name__ == "__main__":
    unittest.main()
