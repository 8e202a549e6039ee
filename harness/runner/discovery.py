"""Discovery: which test modules there are, and which tests they have, without importing any here.

Test modules are imported by the zygote. What it finds is kept in a cache, so that ``--list`` knows every
test at once: an entry holds as long as the module's sources, the harness, the suites' shared code, the
interpreter and the installed packages are the same. It cannot know of data files and variables that tests are
made from, so no run goes by it.
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
from harness.runner.unit import FAILED_MODULE, SKIPPED_MODULE, Unit, from_json, of_id
from harness.settings import EnvVar

VERSION = 1
# Caches of other branches, torch builds and settings that are kept beside the newest.
KEPT_CACHES = 8
# Variables that may change which tests a module defines.
_DEFINING = (
    "PYTORCH_TEST_",
    "TORCH_TEST_",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    EnvVar.DROP_IN,
    EnvVar.BACKEND,
    EnvVar.WORLD_SIZE,
)

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ModuleTests:
    """What a module came to: its units, or why it has none. ``dirty`` as in ``Loaded``."""

    module: str
    units: tuple[Unit, ...] = ()
    error: str = ""
    skipped: str | None = None
    duplicates: tuple[str, ...] = ()
    dirty: bool = False

    @property
    def all_units(self) -> tuple[Unit, ...]:
        """The units, or one that stands for the module where that has no tests to name."""
        if self.error:
            return (of_id(FAILED_MODULE + self.module, self.module),)
        if self.skipped is not None:
            return (of_id(SKIPPED_MODULE + self.module, self.module),)
        return self.units


def module_tests(loaded: Loaded) -> ModuleTests:
    """What the zygote says about a module, as a value."""
    return ModuleTests(
        loaded.module,
        tuple(from_json(unit) for unit in loaded.units),
        loaded.error,
        loaded.skipped,
        tuple(loaded.duplicates),
        loaded.dirty,
    )


def merge_units(found: Iterable[ModuleTests]) -> tuple[Unit, ...]:
    """All units, in order. A test that several modules list (because they import its class) is listed once:
    by the module that it is from, else by the first."""
    units: dict[str, Unit] = {}
    for module in found:
        for unit in module.all_units:
            if unit.id not in units or unit.id.startswith(unit.module + "."):
                units[unit.id] = unit
    return tuple(units.values())


def duplicates(found: Iterable[ModuleTests]) -> dict[str, tuple[str, ...]]:
    """The ids that several different tests have, each with the modules of these tests. What a module has from
    another one is that one's test."""
    found = tuple(found)
    several = {test_id: (module.module,) for module in found for test_id in module.duplicates}
    owners: dict[str, tuple[str, ...]] = {}
    for module in found:
        for unit in module.units:
            if not unit.imported:
                owners[unit.id] = (*owners.get(unit.id, ()), module.module)
    return several | {test_id: modules for test_id, modules in owners.items() if len(modules) > 1}


# -- which modules there are


def project_root() -> Path:
    """The directory that holds ``harness/`` and ``suites/``."""
    return Path(__file__).resolve().parents[2]


def modules_below(root: Path, package: str = "suites") -> tuple[str, ...]:
    """Every ``test_*.py`` below a package's directory, as module names, sorted."""
    names = []
    for parent, children, files in os.walk(root / package):
        children[:] = sorted(c for c in children if c.isidentifier() and c != "__pycache__")
        prefix = ".".join(Path(parent).relative_to(root).parts)
        names += [f"{prefix}.{f[:-3]}" for f in files if f.startswith("test_") and f.endswith(".py")]
    return tuple(sorted(names))


def standard(modules: Iterable[str]) -> tuple[str, ...]:
    """The modules that run where the user names none: all but the harness's own tests."""
    return tuple(m for m in modules if not m.startswith("suites.selftest."))


# -- the cache


def stamp(file: str | Path) -> Stamp | None:
    """What changes when a file does, as the import system judges it; None for one that is not there."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)


def is_from(source: Path, module: str, files: Iterable[str]) -> bool:
    """True where ``source``, resolved, is the module's own among its ``files``."""
    name = f"{module.rpartition('.')[2]}.py"
    return any(os.path.basename(file) == name and Path(file).resolve() == source for file in files)


def torch_version_file() -> Path | None:
    """Where the installed torch says which it is, found without importing it."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).with_name("version.py")


def torch_version(file: Path | None) -> str | None:
    """The version that torch's ``version.py`` states; None where there is none."""
    if file is None:
        return None
    with contextlib.suppress(OSError):
        found = re.search(r"__version__\s*=\s*['\"]([^'\"]+)['\"]", file.read_text(encoding="utf-8"))
        return found[1] if found else None
    return None


def package_directories(path: Iterable[str]) -> list[Path]:
    """The entries of ``sys.path`` that pip installs to; what it installs or removes changes their stamps."""
    return [Path(entry) for entry in path if entry.endswith(("site-packages", "dist-packages"))]


def context(
    root: Path, environ: Mapping[str, str], torch_file: Path | None, packages: Iterable[Path] = ()
) -> str:
    """A digest of everything but the test modules that may be known to decide which tests there are."""
    support = [*sorted((root / "harness").rglob("*.py")), *sorted(_shared_code(root / "suites"))]
    parts = [
        VERSION,
        sys.version,
        str(root),
        torch_file and (str(torch_file), stamp(torch_file)),
        [(str(file), stamp(file)) for file in (*packages, *support)],
        sorted((k, v) for k, v in environ.items() if k.startswith(_DEFINING)),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def _shared_code(suites: Path) -> Iterable[Path]:
    return (file for file in suites.rglob("*.py") if not file.name.startswith("test_"))


class Cache:
    """The tests of modules as they were found before, in one file a context; effects are all here.

    A cache that cannot be read or written is an empty one: it saves time and decides nothing.
    """

    def __init__(self, directory: Path | None, key: str) -> None:
        """``directory`` None keeps nothing."""
        self._path = directory / f"tests-{key}.json" if directory is not None else None
        self._entries: dict[str, dict[str, Any]] = _read(self._path)
        self._changed = False

    def get(self, module: str, source: Path) -> ModuleTests | None:
        """What is known about the module of that file, if its sources are as they were."""
        entry = self._entries.get(module)
        if entry is None:
            return None
        try:
            stamps: dict[str, list[int]] = entry["stamps"]
            if not is_from(source, module, stamps):
                return None
            if any(stamp(file) != tuple(was) for file, was in stamps.items()):
                return None
            return module_tests(Loaded(module, **{k: v for k, v in entry.items() if k != "stamps"}))
        except (KeyError, TypeError, ValueError, AttributeError, ProtocolError):
            return None

    def put(self, loaded: Loaded) -> None:
        """Notes what a module came to. Trouble is not kept: it may be gone the next time."""
        stamps = {file: list(stamp(file) or ()) for file in loaded.files}
        if loaded.error or not stamps:
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
        """Writes the file where something changed; a reader sees the old one or the new one."""
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
    except (OSError, ValueError, KeyError, TypeError):
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
    """What ``sys.path`` begins with in a run: the targets' own roots, in front of the project's."""
    return list(dict.fromkeys([*(e for e in entries if e), str(root)]))
