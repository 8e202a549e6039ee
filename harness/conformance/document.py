"""``Conformance``: what is reported of a target, and ``conformance.json``, its file, which says all of it.

The schema is versioned (``SCHEMA``); a reader refuses a newer one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.conformance import left_out
from harness.conformance.left_out import LeftOut
from harness.conformance.matrix import Cell, Matrix, State, count, summary_line
from harness.errors import UsageError

SCHEMA = 1
NAME = "conformance.json"


@dataclass(frozen=True, slots=True)
class Conformance:
    """What a run has found out about a target.

    ``target`` is its name, ``versions`` what was used by name ("torch", "Python"), ``rerun`` the command that
    runs a test of a bad cell again, by the test's id. ``left_out`` are the tests that the run was not about.
    """

    target: str
    versions: Mapping[str, str]
    matrix: Matrix
    rerun: Mapping[str, str] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def line(self) -> str:
        """The summary in one line."""
        return summary_line(self.matrix)


def to_json(found: Conformance) -> dict[str, Any]:
    """The document as JSON-able values; lossless with ``from_json``."""
    return {
        "schema": SCHEMA,
        "kind": "conformance",
        "target": found.target,
        "versions": dict(found.versions),
        "summary": found.line,
        "suites": _suites(found.matrix),
        "tests": [_cell_to_json(each) for each in found.matrix.tests],
        "cells": [_cell_to_json(each) for each in found.matrix.cells],
        "rerun": dict(found.rerun),
        "left out": left_out.to_json(found.left_out),
    }


def _suites(matrix: Matrix) -> dict[str, dict[str, dict[str, int]]]:
    """The counts of each suite by state, of its tests and of its cells."""
    suites = sorted({each.suite for each in (*matrix.tests, *matrix.cells)})
    return {
        suite: {"tests": _counts(suite, matrix.tests), "cells": _counts(suite, matrix.cells)}
        for suite in suites
    }


def _counts(suite: str, cells: Iterable[Cell]) -> dict[str, int]:
    counted = count(each for each in cells if each.suite == suite)
    return {state.value: counted.states[state] for state in State if counted.states.get(state)}


def _cell_to_json(each: Cell) -> dict[str, Any]:
    optional = {"said": each.said, "known": each.known}
    return {
        "suite": each.suite,
        "name": each.name,
        "coordinates": dict(each.coordinates),
        "state": each.state.value,
        "test": each.test,
        **{name: value for name, value in optional.items() if value},
    }


def dumps(found: Conformance) -> str:
    """The file's content: a cell a line, so that versions of the file can be compared as text too."""
    value = to_json(found)
    parts = []
    for name, content in value.items():
        if name in ("tests", "cells") and content:
            lines = ",\n".join(f"  {json.dumps(each, ensure_ascii=False)}" for each in content)
            parts.append(f" {json.dumps(name)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(content, ensure_ascii=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def from_json(value: Any) -> Conformance:
    """The document of JSON values. ValueError, in one line, where they are not of this schema."""
    try:
        if value["kind"] != "conformance":
            raise ValueError("it is no conformance report")
        if value["schema"] > SCHEMA:
            raise ValueError(f"it has schema {value['schema']}, and this harness reads up to {SCHEMA}")
        tests, cells = (tuple(map(_cell, value[name])) for name in ("tests", "cells"))
        rest = left_out.from_json(value["left out"]) if "left out" in value else LeftOut()
        return Conformance(
            str(value["target"]),
            dict(value["versions"]),
            Matrix(tests, cells),
            dict(value.get("rerun", {})),
            rest,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no conformance report ({error!r})") from None


def _cell(value: Mapping[str, Any]) -> Cell:
    return Cell(
        str(value["suite"]),
        str(value["name"]),
        tuple((str(name), str(of)) for name, of in value["coordinates"].items()),
        State(value["state"]),
        str(value.get("said", "")),
        str(value.get("test", "")),
        str(value.get("known", "")),
    )


def load(path: Path) -> Conformance:
    """The document in a file, or in a run's directory. UsageError, in one line, where there is none."""
    file = path / NAME if path.is_dir() else path
    try:
        return from_json(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UsageError(f"{file} is not there: run_tests.py --report conformance writes it") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except ValueError as error:  # of JSON and of UTF-8 too
        raise UsageError(f"{file} cannot be read: {error}") from None
