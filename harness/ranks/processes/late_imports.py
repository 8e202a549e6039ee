"""Which slow modules of torch tests import while they run, in ranks or workers: later ones have them at once.

``DistributedDataParallel``, an optimizer and ``fully_shard`` import dynamo, 800 modules, when they are first
used: more than a second of processor time in each rank of each test whose file does not import it. So only
the first ranks pay for it. Which modules it was is kept in memory that a process shares with its forks: a
server imports them before it forks ranks, the zygote before it forks workers.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence

from harness.ranks.processes import preload
from harness.system.fork_safety import IMPORTED

# Each takes four tenths of a second or more, by itself or with what it imports, or is part of a compile.
SLOW = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.distributed.tensor",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "torch._dynamo",
    *preload.TRACING,
    *preload.AOT,
    *preload.INDUCTOR,
)
# What a test's module imports of torch by its own statements, and takes as long.
EARLY = ("torch", "torch.testing._internal.common_utils", "torch.testing._internal.common_distributed")


def imported_of_torch() -> list[str]:
    """The modules of ``EARLY`` and ``SLOW`` that this process has imported."""
    return [name for name in (*EARLY, *SLOW) if name in sys.modules]


def import_at_once(names: Sequence[str]) -> None:
    """Imports what another process had imported of torch, for forks that import a test's module."""
    preload.import_modules(names)


class LateImports:
    """The modules of ``SLOW`` that some process has imported late, as this process and its forks know them.

    A process that is going to fork calls ``share`` first; without it nothing becomes known.
    """

    def __init__(self) -> None:
        self._late: mmap.mmap | None = None  # a byte a module: 1 once a process has imported it late

    def share(self) -> None:
        """Makes what forks of this process ``note`` known here and to each other, if that is not so yet."""
        if self._late is None:
            self._late = mmap.mmap(-1, len(SLOW))

    def missing(self) -> Sequence[int]:
        """The places in ``SLOW`` of the modules that this process has not imported."""
        return [place for place, name in enumerate(SLOW) if name not in sys.modules]

    def note(self, missing: Sequence[int]) -> None:
        """Notes which of the modules that were ``missing`` when the tests began this process has now."""
        if self._late is not None:
            for place in missing:
                if SLOW[place] in sys.modules:
                    self._late[place] = 1

    def to_import(self) -> Sequence[str]:
        """The modules that others have imported late and this process, if it has torch, has not."""
        late = self._late
        if late is None or "torch" not in sys.modules:
            return []
        return [SLOW[place] for place in self.missing() if late[place]]

    def import_them(self) -> bool:
        """Imports what is ``to_import``, for the forks to come; whether that was anything.

        The state that these imports leave, a new process would have too.
        """
        names = self.to_import()
        if names:
            as_imported = not IMPORTED.changed()
            preload.import_modules(names)
            if as_imported:
                IMPORTED.note()
        return bool(names)


late_imports = LateImports()
