"""``after_import``: has something done when a module is first imported, right after its own code has run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


@contextmanager
def after_import(name: str, action: Callable[[], object]) -> Iterator[None]:
    """A region in which ``action`` is called once the module of that name has been imported.

    The module must not be imported yet. It is called by the thread that imports the module, before the import
    statement ends; what it raises is raised there.
    """
    finder = _Finder(name, action)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:  # the code in the region may have put another list there
            sys.meta_path.remove(finder)


class _Finder:
    """Finds nothing by itself: of one module it lets the other finders find the loader, and adds to that."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's spec, as the protocol of ``sys.meta_path`` has it; None for any other module."""
        if name != self._name:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((each for each in found if each is not None), None)
        if spec is not None and spec.loader is not None:
            _add(spec.loader, self._action)
        return spec


def _add(loader: object, action: Callable[[], object]) -> None:
    """Has a loader call ``action`` once, after its next module."""
    execute = getattr(loader, "exec_module")  # noqa: B009 - of the protocol, which not every loader's class declares

    def exec_module(module: ModuleType) -> None:
        delattr(loader, "exec_module")
        execute(module)
        action()

    setattr(loader, "exec_module", exec_module)  # noqa: B010 - on this object alone
