"""``ZygoteOwner``: keeps a zygote with the run's modules imported, whatever the modules do to it.

A module whose import ends the zygote is an error and is left out of the next one. A module whose import
leaves threads running is left out too: workers import it themselves.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from harness.errors import HarnessError
from harness.runner.messages import Loaded
from harness.runner.zygote_process import ZygoteLost, ZygoteProcess

# A zygote may die of the machine's troubles; one that dies so often has a reason that we cannot mend.
MOST_LOSSES = 10


class ZygoteOwner:
    """Owns the zygote, one at a time. Leaving the context ends it and every worker."""

    def __init__(
        self,
        environ: Mapping[str, str],
        sys_path: Sequence[str],
        path: Sequence[str],
        wake: int,
        *,
        inherit_streams: bool = False,
    ) -> None:
        """``path`` comes before the rest of ``sys_path``. ``wake`` becomes readable where the user wants to
        stop."""
        self._environ, self._sys_path, self._path = dict(environ), list(sys_path), list(path)
        self._wake, self._inherit = wake, inherit_streams
        self.import_s: dict[str, float] = {}
        self._cold: set[str] = set()
        self._broken: set[str] = set()
        self._loaded: list[str] = []
        self._zygote: ZygoteProcess | None = None
        self._losses = 0

    def __enter__(self) -> ZygoteOwner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the zygote, if there is one."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    @property
    def pid(self) -> int | None:
        """The zygote's process id."""
        return self._zygote.pid if self._zygote is not None else None

    def zygote(self, say: Callable[[str], None]) -> ZygoteProcess:
        """The zygote, started if need be, with every module loaded that was asked for so far; ``say`` as in
        ``load``."""
        if self._zygote is None:
            for _ in self._load(self._loaded, say):
                pass
        assert self._zygote is not None
        return self._zygote

    def load(self, modules: Iterable[str], say: Callable[[str], None]) -> Iterator[Loaded]:
        """Has modules imported that are not yet, and yields what each came to; ``say`` takes notices of one
        line.

        KeyboardInterrupt where the user wants to stop; HarnessError where no zygote survives.
        """
        skip = {*self._loaded, *self._broken, *self._cold}
        yield from self._load([m for m in modules if m not in skip], say)

    def lost(self) -> None:
        """Forgets a zygote that died while it had no module to blame."""
        self._losses += 1
        self.close()
        if self._losses > MOST_LOSSES:
            raise HarnessError("the process that forks workers died again and again; see the notices above")

    def _load(self, modules: Sequence[str], say: Callable[[str], None]) -> Iterator[Loaded]:
        todo, told = list(modules), set(self._loaded)
        while True:
            spoiled = False
            try:
                for loaded in self._start().load(
                    [m for m in todo if m not in self._cold], self._path, self._wake
                ):
                    spoiled = spoiled or loaded.dirty
                    self._note(loaded, say)
                    if loaded.module not in told:
                        told.add(loaded.module)
                        yield loaded
            except ZygoteLost as lost:
                say(f"the process that forks workers ended ({_first_line(lost)}); starting another")
                self.lost()
                spoiled = True
            if not spoiled:
                return
            self.close()
            todo = [m for m in dict.fromkeys([*self._loaded, *todo]) if m not in self._broken]

    def _start(self) -> ZygoteProcess:
        if self._zygote is None:
            self._zygote = ZygoteProcess(self._environ, self._sys_path, inherit_streams=self._inherit)
        return self._zygote

    def _note(self, loaded: Loaded, say: Callable[[str], None]) -> None:
        if loaded.error:
            self._broken.add(loaded.module)
        elif loaded.module not in self._loaded:
            self._loaded.append(loaded.module)
            if loaded.import_s is not None:
                self.import_s[loaded.module] = loaded.import_s
        if loaded.dirty:
            self._cold.add(loaded.module)
            say(f"importing {loaded.module} leaves threads running: its workers import it anew")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
