"""What ``multiprocessing`` says of a rank: that it is a child, with a name, and that it has a parent.

Code that acts only in a process that another one started asks for ``current_process().name`` or
``parent_process()``. In a fork, both would be those of the process that ran the test; upstream's ranks are
children named "process 0", "process 1", ...
"""

from __future__ import annotations

import multiprocessing.process
import os
from typing import Any

# Its values as the interpreter starts with them.
_MAIN = ("MainProcess", (), None)


class _Parent(multiprocessing.process._ParentProcess):  # type: ignore[name-defined,misc]  # what a child has there
    """The parent of a rank; ``multiprocessing``'s own would need a descriptor to know whether it lives."""

    def is_alive(self) -> bool:
        """Whether the process that started this rank still runs."""
        return os.getppid() == int(self._parent_pid)

    def join(self, timeout: float | None = None) -> None:
        """Waits for the end of that process, which is also the end of this one."""
        raise RuntimeError("a rank cannot wait for the end of the process that started it")


def be_rank(rank: int) -> None:
    """Makes this process the child "process RANK" of the process that started it."""
    _be(f"process {rank}", (rank + 1,), os.getppid())


def be_main() -> None:
    """Makes this process the main one again, for a script that torchrun would have started by itself."""
    _be(*_MAIN)


def _be(name: str, identity: tuple[int, ...], parent: int | None) -> None:
    module: Any = multiprocessing.process
    current = module._current_process
    current._name, current._identity, current._parent_pid = name, identity, parent
    module._parent_process = None
    if parent is not None:
        module._parent_process = _Parent("MainProcess", parent, None)
        module._parent_process._parent_pid = parent
