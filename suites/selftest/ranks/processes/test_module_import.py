"""Tests that a rank gets its parent's surroundings as of the launch, and nothing else of the parent."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import sys
import tempfile
import unittest
from collections import Counter
from typing import Any
from unittest import mock

from harness import Status
from suites.selftest.faults import surroundings
from suites.selftest.faults.rows import OnForkServer, OnSpawn, Rows


class SurroundingsRows(Rows):
    """Surroundings of ranks, also after the server has been running for a while."""

    def age_the_server(self) -> None:
        """Runs a test, so that the server is older than what follows."""
        self.play(surroundings.Surroundings, "test_own_group")

    def look(self, **environ: str) -> list[dict[str, Any]]:
        """Returns what each rank saw."""
        played = self.play(surroundings.Surroundings, "test_look", **environ)
        self.assertEqual(played.verdict, "pass", played.text)
        return [json.loads(o.output) for o in played.outcome.ranks]

    def test_environment(self) -> None:
        """Ranks get variables that were set, changed or removed since the server started."""
        self.age_the_server()
        with mock.patch.dict(os.environ, {"NEW_IN_THE_PARENT": "äöü \udce4"}):
            before = self.look()
            del os.environ["NEW_IN_THE_PARENT"]
            after = self.look()
        for rank in (0, 1):
            self.assertEqual(before[rank]["environ"]["NEW_IN_THE_PARENT"], "äöü \udce4")
            self.assertNotIn("NEW_IN_THE_PARENT", after[rank]["environ"])

    def test_environment_is_the_whole_of_it(self) -> None:
        """A rank has the parent's whole environment, plus at most a new interpreter's thread limit."""
        with mock.patch.dict(os.environ, {"OMP_NUM_THREADS": "1"}):
            seen = self.look()[0]["environ"]
            for name in os.environ:
                if not name.startswith("HARNESS_"):
                    self.assertEqual(seen.get(name), os.environ[name], name)
            added = {n for n in seen if n not in os.environ and not n.startswith("HARNESS_")}
        self.assertEqual(added, set())

    def test_directory(self) -> None:
        """Ranks start in the parent's current directory and not in the one where the server started."""
        self.age_the_server()
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            self.assertEqual([r["cwd"] for r in self.look()], [os.path.realpath(directory)] * 2)
            os.chdir(before)

    def test_path_and_arguments(self) -> None:
        """Ranks get ``sys.path`` and ``sys.argv`` as they are now."""
        with (
            mock.patch.object(sys, "path", [*sys.path, "/added/since"]),
            mock.patch.object(sys, "argv", ["prog", "--flag"]),
        ):
            for seen in self.look():
                self.assertEqual(seen["path"], sys.path)
                self.assertEqual(seen["argv"], ["prog", "--flag"])

    def test_temporary_directory(self) -> None:
        """``tempfile`` follows the parent's TMPDIR even if the server had another before."""
        self.age_the_server()
        tempfile.gettempdir()
        other = os.path.join(self.temporary, "other")
        os.mkdir(other)
        self.addCleanup(os.rmdir, other)
        self.assertEqual([r["temporary"] for r in self.look(TMPDIR=other)], [other] * 2)

    def test_interpreter(self) -> None:
        """Ranks run the same interpreter with the same flags."""
        for seen in self.look():
            self.assertEqual(seen["executable"], sys.executable)
            self.assertEqual(seen["optimize"], sys.flags.optimize)

    def test_descriptors(self) -> None:
        """A rank has its streams, channel, stack pipe and collective log, and no other descriptor."""
        with socket.socket() as listener, tempfile.TemporaryFile() as file:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            os.set_inheritable(listener.fileno(), True)
            os.set_inheritable(file.fileno(), True)
            for seen in self.look():
                targets = {int(fd): target for fd, target in seen["descriptors"].items()}
                others = Counter(target for fd, target in targets.items() if fd > 2 and target != os.devnull)
                # Where this process has used libuv, each process forked from it makes a pipe for libuv's
                # signals (libuv's fork handler) and holds both ends.
                libuv = {t for t, ends in others.items() if t.startswith("pipe:") and ends == 2}
                self.assertLessEqual(len(libuv), 1, targets)
                self.assertFalse(libuv & self.pipes_here(), targets)
                # libffi 3.5, which ctypes loads, keeps its own file open for as long as the process lives.
                own = libuv | {t for t in others if os.path.basename(t).startswith("libffi.so")}
                kinds = Counter(t.split(":")[0] for t in others.elements() if t not in own)
                self.assertEqual(targets[0], os.devnull)
                self.assertEqual(targets[1], targets[2])
                self.assertEqual(kinds.pop("socket"), 1, targets)
                self.assertEqual(kinds.pop("pipe"), 1, targets)
                self.assertLessEqual(kinds.pop("/memfd", 0), 2, targets)
                self.assertEqual(kinds, Counter(), targets)

    def pipes_here(self) -> set[str]:
        """Returns the pipes of which this process has an end."""
        targets = set()
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
                targets.add(os.readlink(f"/proc/self/fd/{fd}"))
        return {target for target in targets if target.startswith("pipe:")}

    def test_descriptors_do_not_grow(self) -> None:
        """A rank's descriptors do not grow with the number of launches, so that the server keeps none."""
        first = len(self.look()[0]["descriptors"])
        for _ in range(3):
            self.play(surroundings.Surroundings, "test_own_group")
        self.assertEqual(len(self.look()[0]["descriptors"]), first)

    def test_streams(self) -> None:
        """A rank's standard input is /dev/null."""
        played = self.play(surroundings.Surroundings, "test_streams")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_input(self) -> None:
        """A rank that asks for input gets EOFError."""
        played = self.play(surroundings.Surroundings, "test_input")
        self.assertEqual(played.outcome.status, Status.ERROR)
        self.assertIn("EOFError", played.text)

    def test_signals(self) -> None:
        """A rank has default signal handlers, not those of the parent or the server."""
        played = self.play(surroundings.Surroundings, "test_signals")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_own_group(self) -> None:
        """Each rank leads its own process group."""
        played = self.play(surroundings.Surroundings, "test_own_group")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_collector(self) -> None:
        """The garbage collector is on in a rank, although it is off in the server."""
        played = self.play(surroundings.Surroundings, "test_collector")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_atexit(self) -> None:
        """Exit handlers of the parent do not run in a rank."""
        atexit.register(self.fail)
        self.addCleanup(atexit.unregister, self.fail)
        played = self.play(surroundings.Surroundings, "test_atexit")
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertIn("ran at exit", played.rank(0).output)

    def test_umask(self) -> None:
        """A rank's umask is the parent's, whatever earlier ranks did with theirs."""
        mine = os.umask(0o022)
        os.umask(mine)
        self.assertEqual({r["umask"] for r in self.look()}, {mine})


class SurroundingsOnForkServer(SurroundingsRows, OnForkServer):
    """Runs the tests on the fork server."""


class SurroundingsOnSpawn(SurroundingsRows, OnSpawn):
    """Runs the tests on new interpreters."""


if __name__ == "__main__":
    unittest.main()
