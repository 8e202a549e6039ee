"""The conformance report of a merged run: the cells of all parts, where they have reports about a target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.conformance.cells import DIRECTORY, Recorded
from harness.conformance.document import NAME, Conformance, load
from harness.conformance.left_out import together
from harness.conformance.reporter import conformance
from harness.errors import UsageError
from harness.merge.parts import Part
from harness.report.base import RunInfo
from harness.report.summary import Summary


def conformance_of(parts: Sequence[Part], info: RunInfo, summary: Summary) -> Conformance | None:
    """What the whole run has found out about its target; None where no part has a report about one.

    Of a test that several parts have run, the cells of the newest attempt count. UsageError where parts are
    about different targets, or a report cannot be read.
    """
    documents = {part.directory: load(part.directory) for part in parts if (part.directory / NAME).is_file()}
    targets: dict[str, Path] = {}
    for directory, document in documents.items():
        targets.setdefault(document.target, directory)
    if not targets:
        return None
    target, *others = targets
    if others:
        raise UsageError(
            f"{targets[target]} is a run on {target} and {targets[others[0]]} one on {others[0]}: "
            "merge the shards of one target"
        )
    recorded = Recorded(*(part.directory / DIRECTORY for part in parts))
    left_out = together([document.left_out for document in documents.values()])
    return conformance(info, summary, target, recorded, left_out)
