"""What pytest shows of a test on ranks: the failure's text, a section for each rank, and properties.

The text is the harness's (``harness.report.failure``) and stands by itself: no frames of the harness and no
source lines around it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest

from harness.errors import HarnessError, RankTestError
from harness.outcomes import RankOutcome, TestOutcome
from harness.pytest_plugin import rank_frames
from harness.pytest_plugin.items import running_case
from harness.report.failure import debugger_hint as in_failed_rank
from harness.report.junit import rank_property
from harness.runner.worker_process.rank_records import rank_record

# How the names of the sections with what ranks printed begin, in pytest's reports.
SECTION = "Captured stdout of rank "


def outcome_of(item: pytest.Item) -> TestOutcome | None:
    """The outcome of the item's ranks; None where it has none (yet)."""
    outcome = getattr(running_case(item), "_harness_outcome", None)
    return outcome if isinstance(outcome, TestOutcome) else None


def add_ranks(item: pytest.Item, outcome: TestOutcome, *, output: bool) -> None:
    """Adds properties for each rank to the item's reports, and with ``output`` a section with its output.

    Those of an earlier attempt at the same test are replaced.
    """
    properties = dict(rank_property(rank_record(rank)) for rank in outcome.ranks)
    item.user_properties[:] = [p for p in item.user_properties if not p[0].startswith("rank ")]
    item.user_properties += properties.items()
    item._report_sections[:] = [s for s in item._report_sections if not s[1].startswith("stdout of rank ")]
    for rank in outcome.ranks if output else ():
        if rank.output.strip():
            item.add_report_section("call", f"stdout of rank {rank.rank}", _ended(rank))


def _ended(rank: RankOutcome) -> str:
    return rank.output if rank.output.endswith("\n") else f"{rank.output}\n"


def without_rank_sections(sections: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The sections of a report without those of ranks, for a further report of the same test."""
    return [section for section in sections if not section[0].startswith(SECTION)]


def longrepr(error: BaseException, excinfo: pytest.ExceptionInfo[BaseException]) -> Any | None:
    """What pytest prints for an error of the harness: its text alone; None for any other error."""
    if not isinstance(error, HarnessError):
        return None
    shown = excinfo.getrepr(style="value", chain=False)
    entries = getattr(getattr(shown, "reprtraceback", None), "reprentries", ())
    if not entries:
        return None
    entries[-1].lines = list(text_lines(error))
    shown.reprcrash = _in_summary(shown.reprcrash, error)
    if hasattr(shown, "chain"):  # what is kept where a report is sent from process to process
        shown.chain = [(shown.reprtraceback, shown.reprcrash, None)]
    return shown


def text_lines(error: BaseException) -> Iterator[str]:
    """The lines of an error's text, with its notes."""
    for text in (str(error), *getattr(error, "__notes__", ())):
        yield from text.split("\n")


def _in_summary(crash: Any, error: BaseException) -> Any:
    """The line of pytest's summary: the reason alone, since the test's id stands before it."""
    if crash is None or not isinstance(error, RankTestError) or error.outcome is None:
        return crash
    crash = copy.copy(crash)
    crash.message = error.outcome.reason or error.outcome.status.value
    return crash


def debugger_hint(error: BaseException, option: str) -> str | None:
    """How to get a debugger in a failed rank, which is gone when pytest's opens; None for other errors."""
    if not isinstance(error, RankTestError) or error.outcome is None:
        return None
    return (
        "the ranks of this test have ended; this debugger shows where, without variables; "
        f"{in_failed_rank(error.outcome, option)}"
    )


def where_it_failed(error: BaseException) -> TracebackType | None:
    """The frames in which a test's rank failed; None for errors that are no rank's."""
    outcome = error.outcome if isinstance(error, RankTestError) else None
    return rank_frames.of_cause(outcome) if outcome is not None else None
