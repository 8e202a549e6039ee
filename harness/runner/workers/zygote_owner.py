"""``ZygoteOwner``: keeps a zygote that has imported the run's modules, and replaces one that has died.

A module whose import ends the zygote is an error, and the next zygote does not import it. A module whose
import leaves threads running is not imported by the next zygote either: its workers import it themselves, but
for the slow modules of torch that it has imported, which that zygote imports for all of them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from harness.errors import HarnessError
from harness.runner.messages import Loaded, Ready
from harness.runner.workers.zygote_interpreter import EarlyInterpreter
from harness.runner.workers.zygote_process import ZygoteLost, ZygoteProcess
from harness.targets import known
from harness.targets.device_set import DeviceSet
from harness.targets.known import Known

# Number of zygotes that may die in a run. More deaths have a cause that starting another zygote does not
# cure.
MOST_LOSSES = 10


class ZygoteOwner:
    """Owns the run's zygote, one at a time. Leaving the context ends it and every worker.

    ``import_s`` maps each imported module to the seconds that its import took, where these are known.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        sys_path: Sequence[str],
        path: Sequence[str],
        wake: int,
        *,
        inherit_streams: bool = False,
        early: EarlyInterpreter | None = None,
    ) -> None:
        """``path`` is put in front of ``sys_path``. ``wake`` is a descriptor that becomes readable when the
        user wants to stop. With ``inherit_streams`` the zygote has this process's standard streams; its
        interpreter may be the ``early`` one."""
        self._environ, self._sys_path, self._path = dict(environ), list(sys_path), list(path)
        self._wake, self._inherit, self._early = wake, inherit_streams, early
        self.import_s: dict[str, float] = {}
        self._cold: set[str] = set()
        self._first: dict[str, None] = {}  # what the cold modules import of torch
        self._broken: set[str] = set()
        self._loaded: list[str] = []
        self._zygote: ZygoteProcess | None = None
        self._ready = Ready()
        self._losses = 0

    def __enter__(self) -> ZygoteOwner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the zygote and its workers, if there is one."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    @property
    def target(self) -> str:
        """The name of the target that is tested, after a ``load``; "" for the default one."""
        return self._ready.target

    @property
    def known_failures(self) -> tuple[Known, ...]:
        """The known failures of the target, after a ``load``."""
        return known.from_json(self._ready.known)

    @property
    def devices(self) -> DeviceSet | None:
        """The target's accelerators, after a ``load``; None where it has none."""
        return self._ready.device_set

    @property
    def imported(self) -> tuple[str, ...]:
        """The modules that the zygote has imported, and from which it can fork workers."""
        return tuple(module for module in self._loaded if module not in self._cold)

    @property
    def pid(self) -> int | None:
        """The zygote's process id; None without a zygote."""
        return self._zygote.pid if self._zygote is not None else None

    def zygote(self, show_notice: Callable[[str], None]) -> ZygoteProcess:
        """Returns the zygote, with all modules that ``load`` has imported; starts one where there is none.

        ``show_notice`` is as in ``load``.
        """
        if self._zygote is None:
            for _ in self._load(self._loaded, show_notice):
                pass
        assert self._zygote is not None
        return self._zygote

    def load(self, modules: Iterable[str], show_notice: Callable[[str], None]) -> Iterator[Loaded]:
        """Has the zygote import the modules that are new, and yields the result of each.

        ``show_notice`` is called with notices of one line. Raises KeyboardInterrupt where the user wants to
        stop, and HarnessError after more than ``MOST_LOSSES`` zygotes have died.
        """
        skip = {*self._loaded, *self._broken, *self._cold}
        yield from self._load([m for m in modules if m not in skip], show_notice)

    def lost(self, how: object = "see the notices above") -> None:
        """Closes a zygote that has died; HarnessError, which says ``how``, after ``MOST_LOSSES`` others."""
        self._losses += 1
        self.close()
        if self._losses > MOST_LOSSES:
            raise HarnessError(f"the process that forks workers died again and again: {how}")

    def _load(self, modules: Sequence[str], show_notice: Callable[[str], None]) -> Iterator[Loaded]:
        todo, told = list(modules), set(self._loaded)
        while True:
            spoiled = False
            try:
                for loaded in self._start().load(
                    [m for m in todo if m not in self._cold], self._path, self._wake, tuple(self._first)
                ):
                    spoiled = spoiled or loaded.dirty
                    self._note(loaded, show_notice)
                    if loaded.module not in told:
                        told.add(loaded.module)
                        yield loaded
            except ZygoteLost as lost:
                show_notice(f"the process that forks workers ended ({_first_line(lost)}); starting another")
                self.lost(lost)
                spoiled = True
            if self._zygote is not None and self._zygote.ready is not None:
                self._ready = self._zygote.ready
            if not spoiled:
                return
            self.close()
            todo = [m for m in dict.fromkeys([*self._loaded, *todo]) if m not in self._broken]

    def _start(self) -> ZygoteProcess:
        if self._zygote is None:
            self._zygote = ZygoteProcess(
                self._environ, self._sys_path, inherit_streams=self._inherit, early=self._early
            )
        return self._zygote

    def _note(self, loaded: Loaded, show_notice: Callable[[str], None]) -> None:
        if loaded.error or loaded.refusal:
            self._broken.add(loaded.module)
        elif loaded.module not in self._loaded:
            self._loaded.append(loaded.module)
            if loaded.import_s is not None:
                self.import_s[loaded.module] = loaded.import_s
        if loaded.dirty:
            self._cold.add(loaded.module)
            self._first.update(dict.fromkeys(loaded.of_torch))
            show_notice(
                f"importing {loaded.module} leaves threads, process groups or a GPU's runtime: "
                "its workers import it anew"
            )


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
