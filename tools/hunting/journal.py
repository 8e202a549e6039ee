"""``Find`` and ``Batch``: what a hunt has found and what it has run; a line of its journal each.

Each line is one write on a descriptor that appends, made by the process that found it. So nothing is lost by
the end of any process, and a hunt goes on from its journal: a seed without a ``Batch`` is run again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.fuzzing.signature import Failure, Kind, Signature

NAME = "hunt.jsonl"


@dataclass(frozen=True, slots=True)
class Batch:
    """A seed that was run: how many programs of a fuzzer, how many were rejected, how many failed."""

    fuzzer: str
    seed: int
    ran: int
    rejected: int
    failed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Find:
    """A program that failed: program ``number`` of a fuzzer's seed, shrunk to ``script`` where ``shrunk``.

    ``entry``: the bug of the book that it is. ``releases``: how the script fails in a fresh process, by the
    release of torch, "" where it passes; empty where it did not run (a known bug, a find that is not shrunk).
    ``schedules``: how it fails on ranks, by their delays, "" where it passes. ``program``: what failed,
    before it was shrunk, as its fuzzer encodes it; None in the journals of older hunts. ``fuzzer``: what drew
    it, where that is a variant of the fuzzer that the signature names.
    """

    signature: Signature
    seed: int
    number: int
    shrunk: bool
    script: str
    entry: str | None
    releases: dict[str, str]
    schedules: dict[str, str] = field(default_factory=dict)
    program: Any = None
    fuzzer: str = ""

    @property
    def drawn_by(self) -> str:
        """The name for ``--fuzzer`` with which the seed draws the program again."""
        return self.fuzzer or self.signature.fuzzer

    @property
    def confirmed(self) -> bool:
        """Whether the script failed in a fresh process, or the delays of its ranks decide how it ends."""
        return any(self.releases.values()) or self.is_race

    @property
    def is_race(self) -> bool:
        """Whether the program passes under some delays of its ranks and fails under others."""
        return "" in self.schedules.values() and any(self.schedules.values())


def append(directory: Path, record: Batch | Find) -> None:
    """Adds a line."""
    line = json.dumps({"record": type(record).__name__, **asdict(record)}) + "\n"
    descriptor = os.open(directory / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read(directory: Path) -> list[Batch | Find]:
    """All records; a last line that was cut by a crash of the machine is left out."""
    path = directory / NAME
    return list(_records(path.read_text(encoding="utf-8"))) if path.exists() else []


def _records(text: str) -> Iterator[Batch | Find]:
    for line in text.splitlines():
        try:
            value: dict[str, Any] = json.loads(line)
        except ValueError:
            continue
        if value.pop("record") == "Batch":
            yield Batch(**value)
        else:
            made = value.pop("signature")
            failure = Failure(Kind(made["failure"]["kind"]), made["failure"]["text"])
            yield Find(signature=Signature(made["fuzzer"], failure, made["structure"]), **value)
