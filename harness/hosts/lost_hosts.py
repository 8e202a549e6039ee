"""``LostHosts``: which hosts of a run do not answer, as processes on the controller's host tell each other.

The first process that has waited for a host in vain leaves a file, so that no other waits for it. After
``AGAIN_S`` the next process tries the host again; one that answers is in use again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

# Seconds for which a host that did not answer is not asked again.
AGAIN_S = 30.0
_MARK = ".lost."


class LostHosts:
    """The files beside the run's key, in a directory of its own: they end with it."""

    def __init__(self, key_file: str, clock: Callable[[], float] = time.time) -> None:
        self._key_file = Path(key_file)
        self._clock = clock

    def why(self, name: str) -> str:
        """How a host was lost; "" where it is to be used, or to be tried again by whoever asks."""
        path = self._path(name)
        try:
            since_s, why = path.stat().st_mtime, path.read_text(encoding="utf-8")
        except OSError:
            return ""
        now = self._clock()
        if now - since_s < AGAIN_S:
            return why
        with contextlib.suppress(OSError):  # the others go by the old word while this one tries
            os.utime(path, (now, now))
        return ""

    def note(self, name: str, why: str) -> None:
        """A host did not answer; nothing where the run, with its directory, is over."""
        path, now = self._path(name), self._clock()
        with contextlib.suppress(OSError):
            path.write_text(why, encoding="utf-8")
            os.utime(path, (now, now))

    def answers(self, name: str) -> None:
        """A host has answered."""
        self._path(name).unlink(missing_ok=True)

    def all(self) -> dict[str, str]:
        """How each host was lost that has not answered since, by name."""
        found = {}
        for path in self._files():
            with contextlib.suppress(OSError):
                found[unquote(path.name.partition(_MARK)[2])] = path.read_text(encoding="utf-8")
        return found

    def remove(self) -> None:
        """Removes the files, where the directory is not removed as a whole."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self._key_file.parent.glob(f"{self._key_file.name}{_MARK}*"))

    def _path(self, name: str) -> Path:
        return self._key_file.with_name(f"{self._key_file.name}{_MARK}{quote(name, safe='')}")
