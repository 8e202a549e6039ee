"""Which process group backends a name means, and what is said of one that torch does not know.

A rank has imported all that registers backends, so it can tell that there is none of a name. The process that
starts ranks may not have: there only a name that was surely mistyped is refused.
"""

from __future__ import annotations

import difflib
import os

from harness.errors import UsageError
from harness.requirements.argument_checks import BACKENDS
from harness.settings import EnvVar

# How like a known name a mistyped one is, from 0 to 1: one letter of three missing, too many or exchanged.
ALIKE = 0.75
# How vendors name their libraries. One that only ranks register differs from NCCL's by as little as a slip.
VENDORS = "ccl"


def names(backend: str) -> tuple[str, ...]:
    """The backends of ``"gloo"`` or ``"cpu:gloo,cuda:nccl"``, in lower case."""
    return tuple(part.rpartition(":")[2].strip().lower() for part in backend.split(","))


def check_in_rank(backend: str) -> None:
    """UsageError where torch knows no such backend; for ranks, before they make a group."""
    known = _registered()
    for name in names(backend):
        if name not in known:
            raise UsageError(_unknown(name, known))


def check_in_parent(backend: str) -> None:
    """UsageError for a name that is like a known backend's, and that nobody has registered in this process.

    Where a plugin is named, which may register it in ranks, they have the word.
    """
    strange = [name for name in names(backend) if name not in BACKENDS and not name.endswith(VENDORS)]
    if not strange or os.environ.get(EnvVar.PLUGIN):
        return
    known = _registered()
    for name in strange:
        if name not in known and _meant(name, known):
            raise UsageError(_unknown(name, known))


def _registered() -> tuple[str, ...]:
    """The backends of this process's torch, with those that others have registered."""
    import torch.distributed as dist

    return tuple(sorted(set(dist.Backend.backend_list) - {dist.Backend.UNDEFINED}))


def _meant(name: str, known: tuple[str, ...]) -> list[str]:
    return difflib.get_close_matches(name, known, n=1, cutoff=ALIKE)


def _unknown(name: str, known: tuple[str, ...]) -> str:
    perhaps = "".join(f"; did you mean {each}?" for each in _meant(name, known))
    return (
        f"torch knows no process group backend {name!r}{perhaps or '; it knows ' + ', '.join(known)}"
        " (one of your own is registered by what the test's module imports)"
    )
