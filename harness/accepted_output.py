"""Accepting expected output (``EXPECTTEST_ACCEPT=1``) where several ranks run the same assertion.

One process edits the source, as expecttest does it; N ranks that did so at once would tear it apart. So a
rank only notes what it would write, and the parent writes once, after all ranks turned out to agree::

    in each rank     with accepted_output.collecting() as accepted:
                         <run the test method>
                     send [update.to_json() for update in accepted.updates]
    in the parent    per_rank = [[Accepted.from_json(value) for value in values] for values in received]
                     accepted_output.apply(per_rank)

``apply`` fails with ``AcceptError``, an AssertionError, and writes nothing where ranks disagree. What a rank
notes includes assertions that hold already: a rank for which the old text is right disagrees with one that
wants another. A rank that never came to an assertion has no say in it.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "EXPECTTEST_ACCEPT"


class AcceptError(AssertionError):
    """An accepted output was not written: ranks disagree on it, or its place in the source is gone.

    The test is at fault in the first case: let one rank assert, or give ranks assertions of their own. In the
    second the file was edited while the test ran: run it again.
    """


@dataclass(frozen=True, slots=True)
class Accepted:
    """One assertion's output, as one rank would have it written.

    ``path`` is the file to edit: the source file with the literal, or an ``.expect`` file. ``lineno`` is the
    assertion's line there as the rank's interpreter knows it, 1 for the first; None for an ``.expect`` file.
    ``test`` is the test's id and ``subname`` what ``assertExpected`` was given. ``old`` is the text that is
    expected now, None where an ``.expect`` file is yet to be made; ``new`` what came out.
    """

    path: str
    lineno: int | None
    test: str
    subname: str | None
    old: str | None
    new: str

    @property
    def place(self) -> str:
        """Where the output belongs, as a person reads it."""
        return self.path if self.lineno is None else f"{self.path}:{self.lineno}"

    def to_json(self) -> dict[str, Any]:
        """The fields as values that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Accepted:
        """The inverse of ``to_json``; TypeError on other fields than these."""
        return cls(**value)


class AcceptedOutputs:
    """What the assertions of one rank would have written so far."""

    def __init__(self) -> None:
        self._updates: dict[tuple[str, int | None], Accepted] = {}

    @property
    def updates(self) -> tuple[Accepted, ...]:
        """One for each place, in the order in which the test came to them."""
        return tuple(self._updates.values())

    def add(self, update: Accepted) -> None:
        """Note ``update``; AcceptError where this rank wants another text in the same place already."""
        key = (update.path, update.lineno)
        earlier = self._updates.setdefault(key, update)
        if earlier.new != update.new:
            raise AcceptError(
                f"one assertion, {update.place}, saw two different outputs; each needs an assertion of "
                f"its own\n\nfirst:\n{earlier.new}\n\nthen:\n{update.new}"
            )


_current: ContextVar[AcceptedOutputs | None] = ContextVar("harness_accepted_outputs", default=None)


@contextlib.contextmanager
def collecting() -> Iterator[AcceptedOutputs]:
    """Within, in this thread, accepted outputs are noted in the yielded object and nothing is written."""
    outputs = AcceptedOutputs()
    token = _current.set(outputs)
    try:
        yield outputs
    finally:
        _current.reset(token)


def accepting() -> bool:
    """Whether assertions take what they see for the expected output, as expecttest decides it."""
    return bool(os.environ.get(VARIABLE))


def current_outputs() -> AcceptedOutputs | None:
    """Where this thread's accepted outputs are noted; None where they are written at once."""
    return _current.get()


def write_expect_file(path: str, text: str) -> None:
    """Write ``text`` to the ``.expect`` file ``path`` and make its directory if need be."""
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def apply(per_rank: Sequence[Sequence[Accepted]]) -> tuple[Accepted, ...]:
    """Write what the ranks accepted, once; the updates that changed something are returned.

    ``per_rank[r]`` is what rank r noted. AcceptError, with nothing written, where two ranks want different
    texts in one place, or where a literal to be replaced is not found in its file.
    """
    updates = [update for update in _agreed(per_rank) if update.new != update.old]
    inline = [update for update in updates if update.lineno is not None]
    for update in inline:
        _locate(update)
    for update in inline:
        _replace_literal(update)
    for update in updates:
        if update.lineno is None:
            print(f"Accepting new output for {update.test} in {update.path}")
            write_expect_file(update.path, update.new)
    return tuple(updates)


def _agreed(per_rank: Sequence[Sequence[Accepted]]) -> list[Accepted]:
    """One update for each place, if all ranks that came there agree; AcceptError if not."""
    by_place: dict[tuple[str, int | None], dict[int, Accepted]] = {}
    for rank, updates in enumerate(per_rank):
        for update in updates:
            by_place.setdefault((update.path, update.lineno), {})[rank] = update
    for ranks in by_place.values():
        if len({update.new for update in ranks.values()}) > 1:
            raise AcceptError(_disagreement(ranks))
    return [next(iter(ranks.values())) for ranks in by_place.values()]


def _disagreement(ranks: Mapping[int, Accepted]) -> str:
    place = next(iter(ranks.values())).place
    by_text: dict[str, list[int]] = {}
    for rank, update in sorted(ranks.items()):
        by_text.setdefault(update.new, []).append(rank)
    texts = [f"{_named(group)}:\n{text}" for text, group in by_text.items()]
    return f"nothing was accepted: ranks disagree on the output at {place}\n\n" + "\n\n".join(texts)


def _named(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _replace_literal(update: Accepted) -> None:
    import expecttest

    lineno = _locate(update)
    if lineno is not None:
        # expecttest files what it has seen under shifted lines and looks it up under plain ones, so it may
        # take this line for another that it edited. It has not edited this one: the old text is still there.
        expecttest.EDIT_HISTORY.seen.get(update.path, {}).pop(lineno, None)
        pos = expecttest.PositionInfo(update.path, lineno)
        expecttest.assert_expected_inline(update.new, update.old or "", pos=pos, debug_id=update.test)


def _locate(update: Accepted) -> int | None:
    """The line to give expecttest for ``update``; None if another test had the same text accepted there.

    expecttest counts lines as this process knows them and adds the shifts of its own edits since. A rank
    may have loaded the file after some of these edits, and then its lines are right as they are. So the
    old text itself decides: it has to be in the statement at the shifted line, or else at the plain one.
    """
    from expecttest import EDIT_HISTORY

    assert update.lineno is not None, "an .expect file has no lines to locate"
    tree = ast.parse(Path(update.path).read_text(encoding="utf-8"))
    shifted = EDIT_HISTORY.adjust_lineno(update.path, update.lineno)
    if update.old in _literals(tree, shifted):
        return update.lineno
    if update.old in _literals(tree, update.lineno):
        return _before_edits(update.path, update.lineno)
    if update.new in _literals(tree, shifted):
        return None
    raise AcceptError(
        f"nothing was accepted: {update.place} no longer holds the text that {update.test} expects. "
        "Either another test, say of the same parametrization, had another text accepted there: each text "
        "needs an assertion of its own. Or the file was edited, or its text is no literal: run it again"
    )


def _literals(tree: ast.Module, lineno: int) -> set[object]:
    """The literals in the statements that cover ``lineno``, other than those that hold statements."""
    return {
        constant.value
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and not _holds_statements(node)
        if node.lineno <= lineno <= (node.end_lineno or node.lineno)
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant)
    }


def _holds_statements(node: ast.stmt) -> bool:
    return any(isinstance(child, (ast.stmt, ast.match_case)) for child in ast.iter_child_nodes(node))


def _before_edits(path: str, lineno: int) -> int:
    """The line that this process's edits of ``path`` have moved to ``lineno``."""
    from expecttest import EDIT_HISTORY

    shift = sum(abs(delta) for _, delta in EDIT_HISTORY.state.get(path, ()))
    for earlier in range(max(1, lineno - shift), lineno + shift + 1):
        if EDIT_HISTORY.adjust_lineno(path, earlier) == lineno:
            return earlier
    raise AcceptError(
        f"nothing was accepted: {path}:{lineno} lies inside text that was just accepted; run again"
    )
