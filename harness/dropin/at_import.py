"""Calls a function when upstream's module is imported, so that the drop-in costs nothing where it is not.

``torch.testing._internal.common_distributed`` imports dynamo and FSDP, which takes as long as torch itself;
many files of a project need neither, or are skipped before they import it.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec

HOME = "torch.testing._internal.common_distributed"


def call_at_import(install: Callable[[], object]) -> None:
    """Has ``install`` called as soon as upstream's module is imported: now, if it is already.

    A further call before the import does nothing. No torch is imported.
    """
    if HOME in sys.modules:
        install()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(install))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds upstream's module as the other finders do, with a loader that calls ``install``."""

    def __init__(self, install: Callable[[], object]) -> None:
        self._install = install

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != HOME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._install)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads a module by its own loader, and calls ``install`` before anyone else sees the module."""

    def __init__(self, own: importlib.abc.Loader, install: Callable[[], object]) -> None:
        self._own, self._install = own, install

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        self._install()
