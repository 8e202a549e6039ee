"""What a name on the command line stands for: modules to import, and tests to run of those in them.

There are two steps, because the ids of tests are known only after the zygote has imported their modules::

    names --resolve--> targets --modules_to_load--> (discovery) --select--> units

A name is a suite (``c10d``), a package or module (``suites.aot``, ``aot.test_export``, ``test_export``), a
path, a class or a test id, or a file's path with ``::Class.method`` behind it. A pattern is ``-k``'s, as in
unittest, or one of ``--include``/``--exclude``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from harness.errors import UsageError
from harness.runner.scheduling.unit import Unit, duplicates
from harness.runner.selection.module_names import file_of_module, import_root, module_of_path

# The package of the conformance suites; names may leave it out.
ROOT = "suites"
# Directories of what was built or installed: their tests are copies, or somebody else's.
_MADE = ("build", "dist", "node_modules", "site-packages", "__pycache__")
# The tree that this harness is in, whose suites are no tests of a project around it.
_TREE = Path(__file__).resolve().parents[3]
# Messages list at most this number of modules.
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Target:
    """The tests that one name stands for: all tests of ``modules``, or those of one module below ``test``.

    ``test`` is a class or ``Class.method``, ``""`` for all. ``path`` holds the entries that ``sys.path``
    needs for modules that are not among the known ones.
    """

    text: str
    modules: tuple[str, ...]
    test: str = ""
    path: tuple[str, ...] = ()

    def takes(self, unit: Unit) -> bool:
        """True where this name stands for the unit, or the unit stands in for the name's module."""
        if unit.module not in self.modules:
            return False
        if unit.stands_in:
            return True
        return self.test in ("", unit.name) or unit.name.startswith((f"{self.test}.", f"{self.test}["))


@dataclass(frozen=True, slots=True)
class Selection:
    """The tests to run, in the order of discovery; ``slow`` is the number left out because they are slow."""

    units: tuple[Unit, ...]
    slow: int = 0


def resolve(names: Iterable[str], modules: Mapping[str, Path], cwd: Path | None = None) -> tuple[Target, ...]:
    """The target of each name. ``modules`` maps known test modules to the directories that they are below.

    Looks at the file system only for names that are paths. A file need not be among the known modules.
    UsageError, with the most similar names, for a name that stands for nothing; also for the end of several
    modules' names, and for two files that are the same module to Python.
    """
    cwd = cwd or Path.cwd()
    targets = tuple(_resolve(name, modules, cwd) for name in names)
    roots: dict[str, tuple[str, ...]] = {}
    for target in targets:
        for module in target.modules if target.path else ():
            if set(roots.setdefault(module, target.path)).isdisjoint(target.path):
                raise _clash(module)
    return targets


def _clash(module: str) -> UsageError:
    return UsageError(
        f"several of these files are the module {module}: rename one, put an __init__.py beside each, "
        f"or run them one at a time"
    )


def _resolve(name: str, modules: Mapping[str, Path], cwd: Path) -> Target:
    file, test = split_path(name)
    if os.sep in file or file.endswith(".py"):
        there = os.path.exists(os.path.join(cwd, file))
        inside = None if there else _inside(name, modules)
        return inside or replace(_of_path(file, modules, cwd), text=name, test=test)
    for dotted in (name, f"{ROOT}.{name}"):
        target = _of_dotted(name, dotted, modules)
        if target is not None:
            return target
    target = _of_tail(name, modules)
    if target is not None:
        return target
    if name and (cwd / name).is_dir():
        return _of_path(name, modules, cwd)
    own = [module_of_path(cwd / file) for file in _near(cwd / name, cwd)]
    raise UsageError(f"{name!r} is no suite, module, path or test{_perhaps(name, own, _known(modules))}")


def split_path(name: str) -> tuple[str, str]:
    """Splits ``path.py::Class.method`` or ``path.py::Class::method`` into the path and ``Class.method``.

    Returns the name and "" where it does not have this form.
    """
    file, colons, rest = name.partition("::")
    if not colons or not file.endswith(".py"):
        return name, ""
    return file, _dotted(rest)


def _dotted(name: str) -> str:
    head, colons, rest = name.partition("::")
    return f"{head}.{_dotted(rest)}" if colons and head.isidentifier() else name


def _inside(name: str, modules: Iterable[str]) -> Target | None:
    """The test whose name only looks like a path: ``Case.test_load.py``, or a ``/`` in a parameter."""
    target = _of_dotted(name, name, modules)
    return target if target is not None and target.test not in ("", "py") else None


def _of_path(name: str, modules: Mapping[str, Path], cwd: Path) -> Target:
    path = (cwd / name).resolve()
    if path.is_file() and path.suffix == ".py":
        return _of_files(name, (path,), modules)
    if path.is_dir():
        files = files_of_tests(path)
        if files:
            return _of_files(name, files, modules)
        raise UsageError(f"{name}: no test_*.py below this directory")
    if path.exists():
        raise UsageError(f"{name}: neither a Python file nor a directory")
    known = [str(file_of_module(module, Path())) for module in modules]
    raise UsageError(f"{name}: no such file or directory{_perhaps(name, _near(path, cwd), known)}")


def _near(path: Path, cwd: Path) -> list[str]:
    """The test files below the directory that a path is in, as they would be named; none for this tree's."""
    directory = next(parent for parent in path.parents if parent.is_dir())
    if directory.is_relative_to(_TREE) or not directory.is_relative_to(cwd):
        return []
    return [os.path.relpath(file, cwd) for file in files_of_tests(directory)]


def _of_files(name: str, files: Sequence[Path], modules: Mapping[str, Path]) -> Target:
    found = tuple(module_of_path(path) for path in files)
    twice = duplicates(found)
    if twice:
        raise _clash(twice[0])
    for module, file in zip(found, files, strict=True):
        known = file_of_module(module, modules[module]).resolve() if module in modules else None
        if known not in (None, file.resolve()):
            raise UsageError(
                f"{file} is the module {module}, and so is {known}: rename it or its package, "
                f"or run it with the run_tests.py of its own tree"
            )
    if set(found) <= set(modules):
        return Target(name, found)
    return Target(name, found, path=tuple(dict.fromkeys(str(import_root(file)) for file in files)))


def files_of_tests(directory: Path) -> list[Path]:
    """The ``test_*.py`` below a directory, sorted.

    Left out are hidden directories, environments, what builds and package managers make, and this tree.
    """
    found: list[Path] = []
    for parent, children, names in os.walk(directory):
        children[:] = [child for child in children if _may_have_sources(Path(parent, child))]
        found.extend(
            Path(parent, name) for name in names if name.startswith("test_") and name.endswith(".py")
        )
    return sorted(found)


def _may_have_sources(directory: Path) -> bool:
    name = directory.name
    made = name in _MADE or name.endswith((".egg-info", ".egg"))
    return not (name.startswith(".") or made or directory == _TREE or (directory / "pyvenv.cfg").exists())


def _of_dotted(name: str, dotted: str, modules: Iterable[str]) -> Target | None:
    below = tuple(module for module in modules if module == dotted or module.startswith(dotted + "."))
    if below:
        return Target(name, below)
    above = [module for module in modules if dotted.startswith(module + ".")]
    if above:
        module = max(above, key=len)
        return Target(name, (module,), dotted.removeprefix(module + "."))
    return None


def _of_tail(name: str, modules: Iterable[str]) -> Target | None:
    """The target of a name that begins with the last part of a module's name: ``test_export.Case``."""
    first, _, test = name.partition(".")
    found = tuple(module for module in modules if module.endswith("." + first))
    if len(found) > 1:
        raise UsageError(f"{name!r} may be any of {', '.join(found[:SHOWN])}: write more of the name")
    return Target(name, found, test) if found else None


def _known(modules: Iterable[str]) -> list[str]:
    """The names that stand for modules: each module with and without the root package, its packages, and the
    last part of its name."""
    known: dict[str, None] = {}
    for module in modules:
        parts = module.removeprefix(ROOT + ".").split(".")
        for end in range(1, len(parts) + 1):
            known[".".join(parts[:end])] = None
        known[parts[-1]] = known[module] = None
    return list(known)


def _perhaps(name: str, *known: Iterable[str]) -> str:
    """The end of an error message: names similar to ``name``, of the first of ``known`` that has any."""
    import difflib  # takes 3 ms, and only errors need it

    similar = (difflib.get_close_matches(name, list(names), n=3, cutoff=0.6) for names in known)
    close = next(filter(None, similar), [])
    return f"; did you mean {' or '.join(close)}?" if close else "; --list shows what there is"


def modules_to_load(
    modules: Iterable[str],
    targets: Sequence[Target],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> tuple[str, ...]:
    """The modules to import: those of the targets, or all of ``modules`` where there are no targets.

    A module none of whose tests ``include`` and ``exclude`` can select is left out.
    """
    wanted = tuple(dict.fromkeys(m for t in targets for m in t.modules)) if targets else tuple(modules)
    return tuple(module for module in wanted if _may_have_tests(module, include, exclude))


def _may_have_tests(module: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    if any(covers(pattern, module) for pattern in exclude):
        return False
    return not include or any(_may_cover(pattern, module) for pattern in include)


def select(
    units: Iterable[Unit],
    targets: Sequence[Target] = (),
    *,
    keywords: Sequence[str] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    slow: bool = False,
    takes: Callable[[Unit], bool] = lambda unit: True,
) -> Selection:
    """The units to run, in their order, each id once.

    A unit is selected if it belongs to a target, matches one of ``keywords``, is covered by one of
    ``include``, each of which counts only where it is not empty, is covered by none of ``exclude``, and if
    ``takes`` says so. As in unittest, the stand-in for a module that does not import is selected wherever one
    of its tests could be.
    Slow units are left out without ``slow``. UsageError for a target that stands for no test of a module that
    did import.
    """
    by_id: dict[str, Unit] = {}
    for unit in units:
        by_id.setdefault(unit.id, unit)
    units = tuple(by_id.values())
    for target in targets:
        _check(target, units)
    taken = tuple(
        unit
        for unit in units
        if (not targets or any(target.takes(unit) for target in targets))
        and _agrees(unit, keywords, include, exclude)
        and takes(unit)
    )
    quick = tuple(unit for unit in taken if slow or not unit.slow)
    return Selection(quick, len(taken) - len(quick))


def _agrees(unit: Unit, keywords: Sequence[str], include: Sequence[str], exclude: Sequence[str]) -> bool:
    if unit.broken:
        return _may_have_tests(unit.module, include, exclude)
    name = unit.module if unit.stands_in else unit.id
    return (
        (not keywords or any(matches(pattern, unit.id) for pattern in keywords))
        and (not include or any(covers(pattern, name) for pattern in include))
        and not any(covers(pattern, name) for pattern in exclude)
    )


def _check(target: Target, units: Sequence[Unit]) -> None:
    if not target.test or any(target.takes(unit) for unit in units):
        return
    tests = [unit for unit in units if unit.module in target.modules and unit.case]
    if tests:
        rests = dict.fromkeys(r for u in tests for r in (u.case, f"{u.case}.{u.method}"))
        module = target.modules[0]
        raise UsageError(f"{target.text!r}: {module} has no {target.test!r}{_perhaps(target.test, rests)}")


def matches(pattern: str, test_id: str) -> bool:
    """True where a ``-k`` pattern matches an id, as in unittest, with regard to case.

    A pattern with a ``*`` is a shell pattern for the whole id; any other is a part of it. Brackets are
    brackets, too, for the ids of pytest's parameters.
    """
    whole = pattern if "*" in pattern else f"*{pattern}*"
    return fnmatchcase(test_id, whole) or fnmatchcase(test_id, whole.replace("[", "[[]"))


def check_patterns(option: str, patterns: Iterable[str], modules: Sequence[str]) -> None:
    """Raises UsageError for a pattern of ``--include`` or ``--exclude`` (``option``) that can match nothing.

    It can match a known module, a package of one, or a test in one.
    """
    for pattern in patterns:
        if not any(_may_cover(pattern, module) for module in modules):
            raise UsageError(
                f"{option} {pattern!r} matches no test module{_perhaps(pattern, _known(modules))}"
            )


def covers(pattern: str, name: str) -> bool:
    """True where the shell pattern matches the dotted name or one of the packages, modules or classes in it.

    The root package may be left out: ``c10d`` covers all tests of ``suites.c10d``.
    """
    return any(part == pattern or fnmatchcase(part, pattern) for part in _around(name))


def _may_cover(pattern: str, module: str) -> bool:
    """True where the pattern covers the module or may cover a test in it."""
    if covers(pattern, module):
        return True
    literal = pattern.split("*", 1)[0].split("?", 1)[0].split("[", 1)[0]
    if literal != pattern and not literal:
        return True
    return any(
        literal.startswith(part + ".") or (literal != pattern and part.startswith(literal))
        for part in (module, module.removeprefix(ROOT + "."))
    )


def _around(name: str) -> Iterable[str]:
    for dotted in (name, name.removeprefix(ROOT + ".")):
        parts = dotted.split(".")
        for end in range(1, len(parts) + 1):
            yield ".".join(parts[:end])
