"""``GarbagePause``: a while without garbage collections; ``PAUSE`` is that of a process's imports.

Imports of torch make a million objects, and nearly all of them stay. Looking through them again and again,
the last time when the interpreter ends, takes a third of the time of a process that only imports torch's test
modules.
"""

from __future__ import annotations

import gc


class GarbagePause:
    """A pause of automatic garbage collections in this process.

    Code that disables the collector meanwhile, or sets thresholds of its own, has its way.
    """

    def __init__(self) -> None:
        self._kept: tuple[int, int, int] | None = None

    @property
    def begun(self) -> bool:
        """Whether there is a pause now."""
        return self._kept is not None

    def begin(self) -> None:
        """Begins the pause, if there is none."""
        if self._kept is None:
            self._kept = gc.get_threshold()
            gc.set_threshold(0)

    def end(self, *, freeze: bool = True) -> None:
        """Ends the pause, if there is one. With ``freeze``, later collections leave out what exists now."""
        if freeze:
            gc.freeze()
        gc.set_threshold(*self.thresholds())
        self._kept = None

    def thresholds(self) -> tuple[int, int, int]:
        """The thresholds of the collector; in a pause those that hold after it."""
        now = gc.get_threshold()
        return self._kept if self._kept is not None and now[0] == 0 else now


PAUSE = GarbagePause()
