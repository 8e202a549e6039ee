"""``near``: the programs of a seed, most of them small changes of programs that failed.

A program that torch gets wrong has others around it that torch gets wrong for other reasons: there is more
to find than among fresh draws, and more that tests what the book's patterns ask for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.fuzzing.hunted import Hunted
from tools.hunting import journal
from tools.hunting.journal import Find

# One program in so many is drawn, so that a hunt does not go round and round.
FRESH = 4
# How many of the journal's last finds are changed.
LAST = 400


class Failed:
    """Programs that failed, by the bug that each is: one that is met often is not changed more often."""

    def __init__(self) -> None:
        self._programs: dict[str, list[Any]] = {}

    def add(self, find: Find, program: Any) -> None:
        """Adds what a find was at first. Finds that are not in the book are told apart by their error."""
        bug = find.entry or str(find.signature.failure)
        self._programs.setdefault(bug, []).append(program)

    def __bool__(self) -> bool:
        return bool(self._programs)

    def one(self, choice: random.Random) -> Any:
        """A program of a bug."""
        return choice.choice(self._programs[choice.choice(sorted(self._programs))])


def near(fuzzer: Hunted[Any], drawn: Iterator[Any], failed: Failed, choice: random.Random) -> Iterator[Any]:
    """Changes of the programs in ``failed``, which may grow meanwhile, and of ``drawn`` one in ``FRESH``.

    While nothing has failed all are drawn. It ends with ``drawn``.
    """
    while True:
        if failed and choice.randrange(FRESH):
            yield fuzzer.changed(failed.one(choice), choice)
            continue
        try:
            yield next(drawn)
        except StopIteration:
            return


def failed_before(fuzzer: Hunted[Any], directory: Path) -> Failed:
    """The programs of a fuzzer that the journal's last finds are of."""
    finds = (each for each in journal.read(directory) if isinstance(each, Find))
    own = [find for find in finds if find.drawn_by == fuzzer.name and find.program is not None]
    failed = Failed()
    for find in own[-LAST:]:
        failed.add(find, fuzzer.from_json(find.program))
    return failed
