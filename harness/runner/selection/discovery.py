"""Finds the test modules of a tree, and keeps the tests that the zygote found in them in a cache.

Test modules are imported by the zygote, never here. The cache lets ``--list`` print every test at once. An
entry is valid as long as the module's sources, the harness, the suites' shared code, the interpreter and the
installed packages are the same. The cache cannot know of data files and variables that tests are made from,
so a run never relies on it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ProtocolError
from harness.runner.messages import Loaded
from harness.runner.scheduling.unit import BROKEN, SKIPPED, Unit, from_json, of_module
from harness.settings import EnvVar
from harness.source_digests import python_files

VERSION = 1
# Number of cache files that are kept: each branch, torch build and combination of settings has one.
KEPT_CACHES = 8
# Variables that may change which tests a module defines.
_DEFINING = (
    "PYTORCH_TEST_",
    "TORCH_TEST_",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    EnvVar.DROP_IN,
    EnvVar.BACKEND,
    EnvVar.TARGET_BACKEND,
    EnvVar.TARGET_DEVICE,
    EnvVar.PLUGIN,
    EnvVar.WORLD_SIZE,
)

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ModuleTests:
    """The units of an imported module, or why it has none. The reasons and ``dirty`` are as in ``Loaded``."""

    module: str
    units: tuple[Unit, ...] = ()
    error: str = ""
    skipped: str | None = None
    duplicates: tuple[str, ...] = ()
    dirty: bool = False
    refusal: str = ""

    @property
    def all_units(self) -> tuple[Unit, ...]:
        """The units, or one stand-in for the module where it cannot run or skips itself."""
        if self.error or self.refusal:
            return (of_module(self.module, BROKEN),)
        if self.skipped is not None:
            return (of_module(self.module, SKIPPED),)
        return self.units


def module_tests(loaded: Loaded) -> ModuleTests:
    """The tests of a module from the zygote's message about it."""
    return ModuleTests(
        loaded.module,
        tuple(from_json(unit) for unit in loaded.units),
        loaded.error,
        loaded.skipped,
        tuple(loaded.duplicates),
        loaded.dirty,
        loaded.refusal,
    )


def merge_units(found: Iterable[ModuleTests]) -> tuple[Unit, ...]:
    """All units, in order, each once.

    A test that several modules list, because they import its class, belongs to the module that defines the
    class, else to the first module that lists it.
    """
    units: dict[str, Unit] = {}
    for module in found:
        for unit in module.all_units:
            if unit.id not in units or unit.id.startswith(unit.module + "."):
                units[unit.id] = unit
    return tuple(units.values())


def duplicates(found: Iterable[ModuleTests]) -> dict[str, tuple[str, ...]]:
    """The ids that several different tests share, each with the modules of these tests.

    A test that a module imports from another module is the other module's test.
    """
    found = tuple(found)
    several = {test_id: (module.module,) for module in found for test_id in module.duplicates}
    owners: dict[str, tuple[str, ...]] = {}
    for module in found:
        for unit in module.units:
            if not unit.imported:
                owners[unit.id] = (*owners.get(unit.id, ()), module.module)
    return several | {test_id: modules for test_id, modules in owners.items() if len(modules) > 1}


# -- which modules there are


def modules_below(root: Path, package: str = "suites") -> tuple[str, ...]:
    """Every ``test_*.py`` below a package's directory, as module names, sorted."""
    names = []
    for parent, children, files in os.walk(root / package):
        children[:] = sorted(c for c in children if c.isidentifier() and c != "__pycache__")
        prefix = ".".join(Path(parent).relative_to(root).parts)
        names += [f"{prefix}.{f[:-3]}" for f in files if f.startswith("test_") and f.endswith(".py")]
    return tuple(sorted(names))


def standard(modules: Iterable[str]) -> tuple[str, ...]:
    """The modules that run where the user names none: all except the self-tests of the harness."""
    return tuple(m for m in modules if not m.startswith("suites.selftest."))


# -- the cache


def stamp(file: str | Path) -> Stamp | None:
    """A file's modification time (ns) and size, by which Python's imports compare it; None without a file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)


def is_from(source: Path, module: str, files: Iterable[str]) -> bool:
    """True where one of ``files`` has the module's name and is the (resolved) file ``source``."""
    name = f"{module.rpartition('.')[2]}.py"
    return any(os.path.basename(file) == name and Path(file).resolve() == source for file in files)


def torch_version_file() -> Path | None:
    """The ``version.py`` of the installed torch, found without importing torch; None where there is none."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).with_name("version.py")


def torch_version(file: Path | None) -> str | None:
    """The version in torch's ``version.py``; None where the file is missing or names no version."""
    if file is None:
        return None
    with contextlib.suppress(OSError):
        found = re.search(r"__version__\s*=\s*['\"]([^'\"]+)['\"]", file.read_text(encoding="utf-8"))
        return found[1] if found else None
    return None


def package_directories(path: Iterable[str]) -> list[Path]:
    """The entries of ``sys.path`` that pip installs to; an installation changes their stamps."""
    return [Path(entry) for entry in path if entry.endswith(("site-packages", "dist-packages"))]


def context(
    root: Path, environ: Mapping[str, str], torch_file: Path | None, packages: Iterable[Path] = ()
) -> str:
    """The cache's key: a digest of all that decides which tests exist, except for the test modules."""
    support = [*python_files(root / "harness"), *_shared_code(root / "suites")]
    parts = [
        VERSION,
        sys.version,
        str(root),
        torch_file and (str(torch_file), stamp(torch_file)),
        [(file, stamp(file)) for file in (*map(str, packages), *support)],
        sorted((k, v) for k, v in environ.items() if k.startswith(_DEFINING)),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def _shared_code(suites: Path) -> list[str]:
    return [file for file in python_files(suites) if not os.path.basename(file).startswith("test_")]


class Cache:
    """The tests of modules as an earlier run found them, in one file for each ``context``.

    A cache that cannot be read counts as empty, and one that cannot be written is not saved: neither is an
    error.
    """

    def __init__(self, directory: Path | None, key: str) -> None:
        """Reads the cache file of ``key`` in ``directory``; with None the cache is never saved."""
        self._path = directory / f"tests-{key}.json" if directory is not None else None
        self._entries: dict[str, dict[str, Any]] = _read(self._path)
        self._changed = False

    def get(self, module: str, source: Path) -> ModuleTests | None:
        """The known tests of the module in that file; None where they are unknown or a source has changed."""
        entry = self._entries.get(module)
        if entry is None:
            return None
        try:
            stamps: dict[str, list[int]] = entry["stamps"]
            if not is_from(source, module, stamps):
                return None
            if any(stamp(file) != tuple(was) for file, was in stamps.items()):
                return None
            if not self._around(source) <= stamps.keys():  # a conftest.py is new
                return None
            return module_tests(Loaded(module, **{k: v for k, v in entry.items() if k != "stamps"}))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ProtocolError):
            return None

    @staticmethod
    def _around(source: Path) -> set[str]:
        """The files beside or above a module for which pytest has to run it."""
        # Imported late: runs without a cache do not need it.
        from harness.runner.pytest_modules import pytest_use

        return set(pytest_use.use_around(source, Path.cwd())[1])

    def put(self, loaded: Loaded) -> None:
        """Stores a module's tests, or forgets a module that did not import: its error may be gone later."""
        stamps = {file: list(stamp(file) or ()) for file in loaded.files}
        if loaded.error or loaded.refusal or not stamps:
            self._changed = self._entries.pop(loaded.module, None) is not None or self._changed
            return
        entry = {
            "units": loaded.units,
            "skipped": loaded.skipped,
            "duplicates": loaded.duplicates,
            "dirty": loaded.dirty,
            "stamps": stamps,
        }
        self._changed = self._changed or self._entries.get(loaded.module) != entry
        self._entries[loaded.module] = entry

    def save(self) -> None:
        """Replaces the cache file atomically if an entry has changed, and removes the oldest other files."""
        if self._path is None or not self._changed:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _write(self._path, json.dumps({"version": VERSION, "modules": self._entries}))
            _prune(self._path.parent)


def _read(path: Path | None) -> dict[str, dict[str, Any]]:
    if path is None:
        return {}
    try:
        value = json.loads(path.read_bytes())
        modules = value["modules"] if value["version"] == VERSION else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return modules if isinstance(modules, dict) else {}


def _write(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tests-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _prune(directory: Path) -> None:
    files = sorted(directory.glob("tests-*.json"), key=lambda f: f.stat().st_mtime_ns, reverse=True)
    for old in files[KEPT_CACHES:]:
        old.unlink()


def paths_of(entries: Sequence[str], root: Path) -> list[str]:
    """The first entries of ``sys.path`` in a run: the directories of the targets, then the suites' root."""
    return list(dict.fromkeys([*(e for e in entries if e), str(root)]))
