"""Tests ranks that are forks of an interpreter: a rank that is a new one is the oracle of what they see."""

from __future__ import annotations

import json
import re
import unittest
from pathlib import Path
from typing import Any

from harness.ranks.processes import choose_launcher
from harness.ranks.processes.spawn import SpawnLauncher
from suites.selftest.faults import surroundings
from suites.selftest.faults.forked_interpreters import forked_interpreters
from suites.selftest.faults.rows import FaultRows, OnForkedInterpreters, OnSpawn

# What a rank says of functions that imports have registered for its end: a fork has none.
OF_IMPORTS = re.compile(r"^[01] from before\n")
# The tests of ``Surroundings`` that print or check what a rank begins with.
LOOKS = ("look", "streams", "input", "signals", "own_group", "collector", "atexit")


class ServerRows(FaultRows):
    """Base class of tests that look at the spawn launcher's server."""

    def server_words(self) -> str:
        """The command line of that server, after a test's ranks."""
        self.assertEqual(self.play(surroundings.Surroundings, "test_own_group").verdict, "pass")
        launcher = choose_launcher.launcher("spawn")
        assert isinstance(launcher, SpawnLauncher)
        assert launcher.server is not None
        return Path(f"/proc/{launcher.server.pid}/cmdline").read_text()


class ForkedInterpretersTest(ServerRows, OnSpawn):
    """``forked_interpreters``, on cases that show what a rank begins with."""

    maxDiff = None

    def seen(self) -> dict[str, Any]:
        """What becomes of each of them, and what it prints, without numbers of processes."""
        seen: dict[str, Any] = {}
        for name in LOOKS:
            played = self.play(surroundings.Surroundings, f"test_{name}")
            told = [OF_IMPORTS.sub("", each.output) for each in played.outcome.ranks]
            kind = played.outcome.ranks[1].error
            seen[name] = (played.verdict, kind and kind.type_name, told)
            if name == "look":
                seen[name] = [without_numbers(json.loads(each)) for each in told]
        return seen

    def test_as_new(self) -> None:
        """Ranks see what ranks see that are new interpreters."""
        new = self.seen()
        with forked_interpreters():
            self.assertEqual(self.seen(), new)

    def test_new_ones_afterwards(self) -> None:
        """Such ranks have a server of their own; the launcher starts new interpreters again afterwards."""
        with forked_interpreters():
            self.assertIn("forked_interpreters", self.server_words())
        self.assertNotIn("forked_interpreters", self.server_words())


class ServerTest(ServerRows, OnForkedInterpreters):
    """A class whose ranks are such forks."""

    def test_own_server(self) -> None:
        """The spawn launcher has the class's server when its tests run."""
        self.assertIn("forked_interpreters", self.server_words())


def without_numbers(seen: dict[str, Any]) -> dict[str, Any]:
    """What a rank saw, with its descriptors by kind and numbers of processes left out of names."""

    def nameless(value: str) -> str:
        return re.sub(r"\d+", "N", value)

    kinds = sorted(nameless(what) for what in seen["descriptors"].values())
    environ = {name: nameless(value) for name, value in seen["environ"].items()}
    return {**seen, "descriptors": kinds, "environ": environ, "temporary": nameless(seen["temporary"])}


if __name__ == "__main__":
    unittest.main()
