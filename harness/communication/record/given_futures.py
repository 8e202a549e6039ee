"""``GivenFutures``: the calls of which the test has the future, or one that was made of several.

It may yet wait by that, or by the work handle, after all. Whether it does nobody knows: it may as well be
told of the end by a callback, or leave the waiting to others. So such a call counts as over, until a wait for
one of the two begins.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from harness.communication.call_log import ENTRIES


class GivenFutures:
    """Tokens of the log by work handle, future and futures made of those, none of which is kept alive.

    ``tokens_of`` is empty where there are none: whoever waits asks that first.
    """

    def __init__(self) -> None:
        self.tokens_of: dict[int, tuple[weakref.ref[Any], tuple[int, ...]]] = {}

    def add(self, tokens: Iterable[int], *objects: Any) -> None:
        """Takes what stands for calls: a work handle and its future, or one that was made of some."""
        if len(self.tokens_of) >= 4 * ENTRIES:
            self.tokens_of.clear()  # the ring has dropped their entries long ago
        calls = tuple(dict.fromkeys(tokens))
        for each in objects if calls else ():
            self.tokens_of[id(each)] = (weakref.ref(each), calls)

    def tokens(self, waited: object) -> tuple[int, ...]:
        """The calls of a future or a work handle; () for another one."""
        found = self.tokens_of.get(id(waited))
        return found[1] if found is not None and found[0]() is waited else ()

    def pop(self, waited: object) -> tuple[int, ...]:
        """The same, which are over."""
        tokens = self.tokens(waited)
        if tokens:
            del self.tokens_of[id(waited)]
        return tokens

    def clear(self) -> None:
        """Forgets all calls."""
        self.tokens_of.clear()
