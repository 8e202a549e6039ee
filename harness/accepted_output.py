"""Accepts new expected output (``EXPECTTEST_ACCEPT=1``) where several ranks run the same assertion.

expecttest edits the source file from the process that asserts; several ranks that did so at once would
destroy the file. So a rank only notes what it would write, and the parent writes once if all ranks agree::

    in each rank     with accepted_output.collecting() as accepted:
                         <run the test method>
                     send [update.to_json() for update in accepted.updates]
    in the parent    per_rank = [[Accepted.from_json(value) for value in values] for values in received]
                     accepted_output.apply(per_rank)

Where ranks disagree, ``apply`` writes nothing and raises ``AcceptError``, an AssertionError. A rank also
notes assertions that pass already: a rank for which the old text is right disagrees with one that wants
another text. A rank that never reached an assertion does not count for it.
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

from harness.settings import EnvVar


class AcceptError(AssertionError):
    """An accepted output was not written: ranks disagree on it, or its place in the source is gone.

    If ranks disagree, the test is at fault: let one rank assert, or give ranks assertions of their own. If
    the place is gone, the file was edited while the test ran: run it again.
    """


@dataclass(frozen=True, slots=True)
class Accepted:
    """The output of one assertion, as one rank would write it.

    ``path`` is the file to edit: the source file with the literal, or an ``.expect`` file. ``lineno`` is the
    assertion's line as the rank's interpreter knows it, 1 for the first; None for an ``.expect`` file.
    ``test`` is the test's id and ``subname`` the argument of ``assertExpected``. ``old`` is the text that is
    expected now, None where the ``.expect`` file does not exist yet; ``new`` is the output.
    """

    path: str
    lineno: int | None
    test: str
    subname: str | None
    old: str | None
    new: str

    @property
    def place(self) -> str:
        """The place of the expected output in words: path and line, or the path of the ``.expect`` file."""
        return self.path if self.lineno is None else f"{self.path}:{self.lineno}"

    def to_json(self) -> dict[str, Any]:
        """The fields as values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Accepted:
        """The inverse of ``to_json``. TypeError where the fields are not those of this class."""
        return cls(**value)


class AcceptedOutputs:
    """The outputs that the assertions of one rank would write, each place once."""

    def __init__(self) -> None:
        self._updates: dict[tuple[str, int | None], Accepted] = {}

    @property
    def updates(self) -> tuple[Accepted, ...]:
        """The outputs, one for each place, in the order in which the test reached them."""
        return tuple(self._updates.values())

    def add(self, update: Accepted) -> None:
        """Adds an update to those that have been noted.

        AcceptError where this rank has noted another text for the same place.
        """
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
    """Inside the block, this thread's accepted outputs are noted in the yielded object and not written."""
    outputs = AcceptedOutputs()
    token = _current.set(outputs)
    try:
        yield outputs
    finally:
        _current.reset(token)


def accepting() -> bool:
    """Whether assertions accept new output (``EXPECTTEST_ACCEPT`` is set), by expecttest's own rule."""
    return bool(os.environ.get(EnvVar.ACCEPT))


def current_outputs() -> AcceptedOutputs | None:
    """The object that this thread's accepted outputs are noted in; None where they are written at once."""
    return _current.get()


def write_expect_file(path: str, text: str) -> None:
    """Writes ``text`` to the ``.expect`` file ``path``; makes its directory where there is none."""
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def apply(per_rank: Sequence[Sequence[Accepted]]) -> tuple[Accepted, ...]:
    """Writes what the ranks accepted, each place once, and returns the updates that changed something.

    ``per_rank[r]`` is what rank r noted. Where two ranks want different texts in one place, or a literal to
    replace is not found in its file, AcceptError is raised and nothing is written.
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
    """One update for each place; AcceptError where ranks that reached it want different texts."""
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
        # expecttest stores the lines that it has edited shifted and looks them up unshifted, so it may take
        # this line for an edited one. It has not edited this one: the old text is still there (related:
        # pytorch/expecttest#7).
        expecttest.EDIT_HISTORY.seen.get(update.path, {}).pop(lineno, None)
        pos = expecttest.PositionInfo(update.path, lineno)
        expecttest.assert_expected_inline(update.new, update.old or "", pos=pos, debug_id=update.test)


def _locate(update: Accepted) -> int | None:
    """The line to give expecttest for ``update``; None if another test had the same text accepted there.

    expecttest expects a line as it was when this process loaded the file, and adds the shifts of its own
    edits since. A rank may have loaded the file after some of these edits; its lines need no shift then. The
    old text decides: it has to be in the statement at the shifted line, or else in the one at the plain line.
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
    """The literals in the statements that cover ``lineno``, except in those that contain statements."""
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
    """The original line that this process's edits of ``path`` have moved to ``lineno``."""
    from expecttest import EDIT_HISTORY

    shift = sum(abs(delta) for _, delta in EDIT_HISTORY.state.get(path, ()))
    for earlier in range(max(1, lineno - shift), lineno + shift + 1):
        if EDIT_HISTORY.adjust_lineno(path, earlier) == lineno:
            return earlier
    raise AcceptError(
        f"nothing was accepted: {path}:{lineno} lies inside text that was just accepted; run again"
    )
