"""``Program``: a small distributed program with one bug, or none, and what has to be said of it.

A program is a function ``(rank, world_size)``, written as users write them, on a default group that exists
already. Comments at the ends of its lines mark places: ``# guilty`` is what the odd rank does, ``# waits``
where others wait for it, ``# also`` another place; words of an expectation name them as ``{guilty}``.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

Body = Callable[[int, int], None]
_MARK = re.compile(r"# (guilty|waits|also|first|second)$")

# Rank modes of a test, and those in which programs run besides the first.
FRESH, POOLED, THREADS, EXTERNAL = "fresh", "pooled", "threads", "external"
KEPT = (FRESH, POOLED)
STARTED = (FRESH, POOLED, THREADS)
PROCESSES = (FRESH, POOLED, EXTERNAL)
EVERYWHERE = (FRESH, POOLED, THREADS, EXTERNAL)


class Kind(enum.Enum):
    """How a program has to end."""

    DEADLOCKED = "deadlocked"  # nothing could move any more, which is found long before the deadline
    TIMED_OUT = "timed out"  # one rank could have gone on, as far as anybody can tell
    ERROR = "error"  # found at the call, at the test's end or by the backend
    DEADLOCKED_OR_ERROR = "deadlocked or error"  # the backend is free to raise an error or to wait forever
    WARNING = "warning"  # the test passes, and is warned of
    PASSED = "passed"  # the program is right, and nothing is said

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses that a test of such a program may have; a backend may end a rank's process."""
        return _STATUSES[self]


_STATUSES = {
    Kind.DEADLOCKED: ("deadlocked",),
    Kind.TIMED_OUT: ("timed out",),
    Kind.ERROR: ("error", "crashed"),
    Kind.DEADLOCKED_OR_ERROR: ("deadlocked", "error", "crashed"),
    Kind.WARNING: ("passed",),
    Kind.PASSED: ("passed",),
}


@dataclass(frozen=True, slots=True)
class Program:
    """One program with its expectation.

    ``guilty`` are the ranks with which the line ``cause:`` begins; () where no rank is odd. ``words`` have to
    be in that line, or in one warning, in any order; " | " separates words of which one is enough. Words that
    begin with ``cause:`` are the whole of the line. ``modes`` are the rank modes in which the program is
    tested. ``deadline_s`` is for programs that come to their deadline.
    """

    body: Body
    world_size: int
    kind: Kind
    guilty: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    modes: tuple[str, ...] = (FRESH,)
    deadline_s: int = 3

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.body.__name__

    def places(self) -> dict[str, str]:
        """Returns ``file.py:line`` of each marked line of the program, by mark."""
        body = inspect.unwrap(self.body)
        lines, first = inspect.getsourcelines(body)
        file = Path(inspect.getsourcefile(body) or "").name
        marked = ((number, _MARK.search(line.rstrip())) for number, line in enumerate(lines, first))
        return {mark[1]: f"{file}:{number}" for number, mark in marked if mark}

    def expected(self, before: int = 0) -> list[tuple[str, ...]]:
        """Returns the alternatives for each of the words, with the places filled in.

        ``before`` is the number of collectives that the group has had before the program.
        """
        places = self.places()
        return [
            tuple(_renumbered(part, before).format(**places) for part in words.split(" | "))
            for words in self.words
        ]


def _renumbered(words: str, before: int) -> str:
    return re.sub(r"#(\d+)", lambda number: f"#{int(number[1]) + before}", words)


@dataclass(slots=True)
class Table:
    """The programs of one module, which it collects by decorators."""

    programs: list[Program] = field(default_factory=list)

    def bug(
        self,
        world_size: int,
        kind: Kind,
        *words: str,
        guilty: Iterable[int] = (),
        modes: tuple[str, ...] = (FRESH,),
        deadline_s: int = 3,
    ) -> Callable[[Body], Body]:
        """Enters the decorated function as a program with a bug."""

        def enter(body: Body) -> Body:
            self.programs.append(Program(body, world_size, kind, tuple(guilty), words, modes, deadline_s))
            return body

        return enter

    def right(self, world_size: int, modes: tuple[str, ...] = (FRESH,)) -> Callable[[Body], Body]:
        """Enters the decorated function as a right program."""
        return self.bug(world_size, Kind.PASSED, modes=modes)


def by_name(*tables: Table) -> dict[str, Program]:
    """Returns the programs of some tables by name; ValueError where two have one name."""
    programs = [program for table in tables for program in table.programs]
    found = {program.name: program for program in programs}
    if len(found) < len(programs):
        raise ValueError("two programs have the same name")
    return found
