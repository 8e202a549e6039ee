"""Converts between module names and file paths, and finds the name by which a script can be imported."""

from __future__ import annotations

import sys
from pathlib import Path


def real_module(module: str) -> str:
    """The importable name of a module; only that of ``__main__`` differs.

    Its name is that of its spec or, for a script, that of its path, as in ``module_of_path``.
    """
    main = sys.modules.get(module)
    if module != "__main__" or main is None:
        return module
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    if getattr(main, "__file__", None) is None:
        return module
    return module_of_path(Path(main.__file__ or ""))


def module_of_path(path: Path) -> str:
    """The dotted name of a Python file, beginning with the outermost parent that is a package."""
    path = path.resolve()
    names = [path.stem]
    for parent in path.parents:
        if not (parent / "__init__.py").exists():
            break
        names.insert(0, parent.name)
    return ".".join(names)


def file_of_module(module: str, root: Path) -> Path:
    """The file that a module has below the directory ``root``; it need not exist."""
    return root.joinpath(*module.split(".")).with_suffix(".py")


def import_root(path: Path) -> Path:
    """The directory that must be on ``sys.path`` for a file to be importable by ``module_of_path``."""
    return next(parent for parent in path.resolve().parents if not (parent / "__init__.py").exists())
