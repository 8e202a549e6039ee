"""Imports a test's module in another process, with the parent's environment, directory and ``sys.path``."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import time
import types
from dataclasses import replace

from harness.errors import LaunchError
from harness.protocol import Launch, ModuleRef
from harness.settings import EnvVar
from harness.targets.plugin import import_plugin

# The name under which a parent's __main__ is executed in another process, so that its
# `if __name__ == "__main__":` block does not run there (multiprocessing's convention, which user code knows).
MAIN_ELSEWHERE = "__mp_main__"

# The variable in which pytest names the test that runs. It is another one for each test.
CURRENT_TEST = "PYTEST_CURRENT_TEST"


# Modules that other processes import before any module of this one's to which it refers.
_first: list[str] = []


def import_first(name: str) -> None:
    """Has other processes import a module before those to which this one refers from now on."""
    if name not in _first:
        _first.append(name)


def reference(module_name: str) -> ModuleRef:
    """How another process can import a module of this one; LaunchError for a module that has no file."""
    return replace(_reference(module_name), first=tuple(_first))


def _reference(module_name: str) -> ModuleRef:
    module = sys.modules.get(module_name)
    file = getattr(module, "__file__", None)
    if module_name != "__main__":
        return ModuleRef(module_name, file if not file or os.path.isabs(file) else os.path.abspath(file))
    file = os.path.abspath(file) if file else None
    spec = getattr(module, "__spec__", None)
    if file is None:
        raise LaunchError(
            "ranks need the test class in a file; it was defined at a prompt or read from stdin"
        )
    return ModuleRef(module_name, file, spec.name if spec is not None else None)


def working_directory() -> str:
    """This process's working directory, which ranks change to; LaunchError where it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise LaunchError("the working directory has been removed: ranks need one that exists") from None


def adopt_parent_environment(request: Launch, previous: Launch | None = None) -> bool:
    """Sets this process's environment, directory, ``sys.path`` and arguments to the request's.

    Returns whether anything changed. After a ``previous`` request only what the parent has changed since is
    set: variables that this process has added to its environment stay.
    """
    if previous is not None and same_surroundings(request, previous):
        return False
    known = dict(os.environ) if previous is None else previous.environ
    if known != request.environ:
        for name in known.keys() - request.environ.keys():
            os.environ.pop(name, None)
        for name, value in request.environ.items():
            if known.get(name) != value:
                os.environ[name] = value
        _forget_cached_environment()
    if previous is None or previous.cwd != request.cwd:
        os.chdir(request.cwd)
    if sys.path != request.sys_path:
        sys.path[:] = request.sys_path
        importlib.invalidate_caches()
    sys.argv[:] = request.argv
    return True


def _forget_cached_environment() -> None:
    """Makes ``tempfile`` and ``time`` read the environment again, which they otherwise read once."""
    tempfile.tempdir = None
    time.tzset()


def same_surroundings(a: Launch, b: Launch) -> bool:
    """Whether two requests come from a parent with the same environment, directory, path and arguments."""
    return (a.environ, a.cwd, a.sys_path, a.argv) == (b.environ, b.cwd, b.sys_path, b.argv)


def new_current_test(request: Launch, previous: Launch) -> str | None:
    """pytest's name of the test where nothing else differs in the surroundings; "" where nothing does at all.

    None where something else differs.
    """
    if same_surroundings(request, previous):
        return ""
    value = request.environ.get(CURRENT_TEST, "")
    if value and CURRENT_TEST in previous.environ:
        known = replace(previous, environ={**previous.environ, CURRENT_TEST: value})
        return value if same_surroundings(request, known) else None
    return None


def adopt_current_test(value: str, previous: Launch) -> None:
    """Sets pytest's name of the test, here and in what is known of the parent's environment."""
    os.environ[CURRENT_TEST] = previous.environ[CURRENT_TEST] = value


def import_reference(ref: ModuleRef) -> types.ModuleType:
    """Imports the module if it is not imported yet, and returns it; an error of its import propagates."""
    if os.environ.get(EnvVar.DROP_IN) == "1":
        importlib.import_module("harness.dropin").install_at_import()
    if os.environ.get(EnvVar.PLUGIN):
        import_plugin(os.environ)
    for name in ref.first:
        with contextlib.suppress(ImportError):  # another host may lack it, and the module need it for nothing
            importlib.import_module(name)
    loaded = sys.modules.get(ref.name)
    if loaded is not None and (ref.name != "__main__" or _same_main(loaded, ref)):
        return loaded
    if ref.name == "__main__":
        return _load_main(ref)
    try:
        return importlib.import_module(ref.name)
    except ModuleNotFoundError as error:
        if ref.file is None or error.name not in (ref.name, ref.name.partition(".")[0]):
            raise
        return _load_file(ref.name, ref.file)


def _same_main(module: types.ModuleType, ref: ModuleRef) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and ref.file is not None and os.path.abspath(file) == ref.file


def _load_main(ref: ModuleRef) -> types.ModuleType:
    assert ref.file is not None
    package = ref.run_as.rpartition(".")[0] if ref.run_as else ""
    if package:
        importlib.import_module(package)
    return _load_file(MAIN_ELSEWHERE, ref.file, package=package, also="__main__")


def _spec_of_file(name: str, file: str) -> importlib.machinery.ModuleSpec | None:
    """How a file becomes a module: by the finder that would import it from its directory, else as it stands.

    So a finder that changes modules (pytest's, for ``assert``) does so here too.
    """
    directory, base = os.path.split(file)
    if base == f"{name.rpartition('.')[2]}.py":
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)  # before 3.12 some finders have find_module alone
            spec: importlib.machinery.ModuleSpec | None = find and find(name, [directory])
            if spec is not None and spec.origin == file:
                return spec
    return importlib.util.spec_from_file_location(name, file)


def _load_file(
    name: str, file: str, *, package: str | None = None, also: str | None = None
) -> types.ModuleType:
    """Executes a file as a module whose name would not lead Python's import system to it."""
    spec = _spec_of_file(name, file)
    if spec is None or spec.loader is None:
        raise LaunchError(f"{file} cannot be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    if package is not None:
        module.__package__ = package
        module.__spec__ = None
    names = [name] if also is None else [name, also]
    for each in names:
        sys.modules[each] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for each in names:
            del sys.modules[each]
        raise
    return module


def find_class(ref: ModuleRef, qualname: str) -> type:
    """The test class in this process; LaunchError where the module does not have a class of that name."""
    found: object = import_reference(ref)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise LaunchError(
            f"{ref.name} has no class {qualname} when ranks import it: define test classes at its top level"
        )
    return found
