"""``GivenFutures``: the calls of which the test has the future.

It may yet wait by that, or by the work handle, after all. Whether it does nobody knows: it may as well be
told of the end by a callback, or leave the waiting to others. So such a call counts as over, until a wait for
one of the two begins.
"""

from __future__ import annotations

import weakref
from typing import Any

from harness.communication.call_log import ENTRIES


class GivenFutures:
    """Tokens of the log by work handle, future and futures made of that, none of which is kept alive."""

    def __init__(self) -> None:
        self._tokens: dict[int, tuple[weakref.ref[Any], int]] = {}

    def add(self, token: int, *objects: Any) -> None:
        """Takes what stands for a call: the work handle and its future, or one that was made of it."""
        if len(self._tokens) >= 4 * ENTRIES:
            self._tokens.clear()  # the ring has dropped their entries long ago
        for each in objects:
            self._tokens[id(each)] = (weakref.ref(each), token)

    def token(self, waited: object) -> int | None:
        """The call of a future or a work handle; None for another one."""
        found = self._tokens.get(id(waited))
        return found[1] if found is not None and found[0]() is waited else None

    def pop(self, waited: object) -> int | None:
        """The same, which is over."""
        token = self.token(waited)
        if token is not None:
            del self._tokens[id(waited)]
        return token

    def clear(self) -> None:
        """Forgets all calls."""
        self._tokens.clear()

    def __bool__(self) -> bool:
        return bool(self._tokens)
