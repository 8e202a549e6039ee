"""The end of an error message about an unknown word: the known words that are most like it."""

from __future__ import annotations

from collections.abc import Iterable

# How much alike two words are at least, from 0 to 1: one letter more, less or exchanged in a short word.
CUTOFF = 0.7


def similar(word: str, known: Iterable[str], *, cutoff: float = CUTOFF) -> list[str]:
    """At most two of the known words, the most similar first."""
    import difflib  # takes 3 ms, and only errors need it

    return difflib.get_close_matches(word, list(known), n=2, cutoff=cutoff)


def perhaps(word: str, known: Iterable[str], otherwise: str) -> str:
    """``; did you mean A or B?``, or ``; `` and ``otherwise`` where nothing known is like the word."""
    close = similar(word, known)
    return f"; did you mean {' or '.join(close)}?" if close else f"; {otherwise}"
