"""Tests ``Remote`` with contenders' processes that answer, report errors, die, or leave children."""

import os
import select
import sys
import unittest

from tools.bench.kinds import MeasureError
from tools.bench.remote import Remote

# A process that speaks the worker's protocol without torch; the test gives the rest of its program.
_ANSWERS = """
import json, os, socket, sys
from harness.wire import recv_frame, send_frame
near = socket.socket(fileno=int(sys.argv[1]))
def say(value):
    send_frame(near, json.dumps(value).encode())
say({"kinds": ["test"]})
request = json.loads(recv_frame(near))
"""


def _remote(rest: str) -> Remote:
    return Remote("scripted", [sys.executable, "-c", _ANSWERS + rest])


class Answers(unittest.TestCase):
    """What ``Remote`` makes of the answers of a contender's process."""

    def test_a_value(self) -> None:
        """A request has the kind and the world size, and its answer is returned."""
        with _remote('say({"value": request["world_size"] if request["kind"] == "test" else 0})') as remote:
            self.assertEqual(list(remote.kinds), ["test"])
            self.assertEqual(remote.measure("test", 8), 8.0)

    def test_an_error_comes_through(self) -> None:
        """An error of the contender is raised with its text."""
        with _remote('say({"error": "the test failed"})') as remote:
            self.assertEqual(list(remote.kinds), ["test"])
            with self.assertRaisesRegex(MeasureError, "the test failed"):
                remote.measure("test", 2)

    def test_a_death_is_an_error_with_its_last_words(self) -> None:
        """The death of the process raises an error with its last output, in every call from then on."""
        with _remote('sys.exit("no memory left")') as remote:
            self.assertEqual(list(remote.kinds), ["test"])
            for _ in range(2):
                with self.assertRaisesRegex(MeasureError, "gone\nno memory left"):
                    remote.measure("test", 2)

    def test_leaving_ends_what_it_started(self) -> None:
        """Leaving the context kills the process group, so that no rank disturbs the next measurement."""
        script = 'say({"value": os.posix_spawn("/bin/sleep", ["sleep", "600"], {})}); recv_frame(near)'
        with _remote(script) as remote:
            self.assertEqual(list(remote.kinds), ["test"])
            child = int(remote.measure("test", 2))
            descriptor = os.pidfd_open(child)
        try:
            ended, _, _ = select.select([descriptor], [], [], 10)
            self.assertTrue(ended, "the child lives on")
        finally:
            os.close(descriptor)
