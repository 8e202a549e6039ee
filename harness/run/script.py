"""``find``: what ``torch-harness run`` is asked to run, found without running any of it: a file or a module.

Nothing is imported here, so that this process stays one from which ranks can be forked.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Sequence

from harness.errors import UsageError


def find(target: str, *, by_name: bool) -> list[str]:
    """The ``sys.path`` for a script or, ``by_name``, a module; UsageError where there is no such thing."""
    if by_name:
        path = _path(os.getcwd())
        _require_module(target, path)
        return path
    if os.path.isdir(target):
        raise UsageError(f"{target!r} is a directory: name a script, or a module by -m")
    if not os.path.exists(target):
        raise UsageError(f"there is no script {target!r}{_perhaps_a_module(target)}")
    if not os.access(target, os.R_OK):
        raise UsageError(f"the script {target!r} cannot be read")
    return _path(os.path.dirname(os.path.realpath(target)))


def _path(first: str) -> list[str]:
    """This process's ``sys.path`` with another first entry, which Python has put there for its own script.

    Python puts none there under -P or PYTHONSAFEPATH.
    """
    known = [entry for entry in sys.path if isinstance(entry, str)]
    return known if getattr(sys.flags, "safe_path", False) else [first, *known[1:]]


def _perhaps_a_module(target: str) -> str:
    dotted = not target.endswith(".py") and all(part.isidentifier() for part in target.split("."))
    return f"; a module is named by -m {target}" if dotted else ""


def _require_module(name: str, path: Sequence[str]) -> None:
    """UsageError unless there is a module of that name, or a package with a ``__main__``."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"-m {name}: write the name of a module, package.module")
    spec = _spec(name, path)
    if spec is None:
        raise UsageError(f"there is no module {name!r}")
    inside = spec.submodule_search_locations
    if inside is not None and _spec("__main__", list(inside), within=name) is None:
        raise UsageError(f"the package {name!r} has no __main__ to run")


def _spec(name: str, path: Sequence[str], within: str = "") -> importlib.machinery.ModuleSpec | None:
    """The spec of a module, found as an import does, but without importing the packages that it is in."""
    found: importlib.machinery.ModuleSpec | None = None
    locations: Sequence[str] = path
    for part in name.split("."):
        within = f"{within}.{part}" if within else part
        found = _one_spec(within, locations)
        if found is None:
            return None
        locations = list(found.submodule_search_locations or ())
    return found


def _one_spec(name: str, locations: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    spec = importlib.machinery.PathFinder.find_spec(name, locations)
    if spec is not None:
        return spec
    # Packages that are installed in place may have a finder of their own, which knows them by name.
    finders = [
        f for f in sys.meta_path if f is not importlib.machinery.PathFinder and hasattr(f, "find_spec")
    ]
    specs = (finder.find_spec(name, locations if "." in name else None) for finder in finders)
    return next((found for found in specs if found is not None), None)
