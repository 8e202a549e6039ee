"""Tests the command line of an agent: its exit codes, and one clear line for each mistake."""

from __future__ import annotations

import contextlib
import io
import os
import unittest
from unittest import mock

from harness.agent import cli
from harness.hosts.key import LEAST_LENGTH


class CliTest(unittest.TestCase):
    """``main``, without a controller."""

    def run_main(self, *words: str, **environ: str) -> tuple[int, str, str]:
        """Its exit code and what it prints; torch is not imported anew."""
        out, err = io.StringIO(), io.StringIO()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_KEY")}
        with (
            mock.patch.dict(os.environ, {**clean, **environ}, clear=True),
            mock.patch.object(cli, "preload"),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = cli.main(words)
        return code, out.getvalue(), err.getvalue()

    def test_new_key(self) -> None:
        """``--new-key`` prints one."""
        code, out, _ = self.run_main("--new-key")
        self.assertEqual(code, 0)
        self.assertGreaterEqual(len(out.strip()), LEAST_LENGTH)

    def test_mistakes(self) -> None:
        """No controller, no key, a short key: exit code 2, and what to do."""
        for words, environ, says in (
            ((), {}, "HOST:PORT"),
            (("node1",), {}, "HOST:PORT"),
            (("127.0.0.1:1",), {}, "set HARNESS_KEY"),
            (("127.0.0.1:1",), {"HARNESS_KEY": "short"}, "--new-key"),
            (("127.0.0.1:1", "--key-file", "/nonexistent", "--wait", "0"), {}, "no key"),
        ):
            with self.subTest(words=words, environ=environ):
                code, _, err = self.run_main(*words, **environ)
                self.assertEqual(code, 2)
                self.assertIn(says, err)
                self.assertEqual(err.count("\n"), 1)

    def test_no_controller(self) -> None:
        """Where nobody listens, the agent gives up with exit code 3."""
        code, _, err = self.run_main("127.0.0.1:1", "--wait", "0", HARNESS_KEY="k" * LEAST_LENGTH)
        self.assertEqual(code, 3)
        self.assertIn("no controller: 127.0.0.1:1 cannot be reached", err)


if __name__ == "__main__":
    unittest.main()
