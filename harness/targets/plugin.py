"""Imports the plugin, a module that registers a backend or a device, and finds its target.

The plugin is imported once a process, before any test runs: by the runner's zygote, by a server of ranks and
by ranks that are new interpreters before the test's module; by pytest before collection; elsewhere by
``load_tests`` and ``run_tests``.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import ModuleType

from harness.errors import UsageError
from harness.settings import EnvVar
from harness.targets.target import Target


def import_plugin(environ: Mapping[str, str]) -> ModuleType | None:
    """Imports the module that ``HARNESS_PLUGIN`` names, and returns it; None where it names none.

    UsageError, in one line, where it does not import.
    """
    name = environ.get(EnvVar.PLUGIN, "").strip()
    if not name:
        return None
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    try:
        return importlib.import_module(name)
    except Exception as error:  # an import may raise anything
        raise UsageError(f"the plugin {name} does not import: {_gist(error)}") from error


def targets_of(module: ModuleType) -> tuple[Target, ...]:
    """The targets of a plugin: its ``TARGET``, or its ``TARGETS``; none where it has neither.

    UsageError where one is no ``Target``.
    """
    one, several = getattr(module, "TARGET", None), getattr(module, "TARGETS", ())
    if not isinstance(several, Sequence):
        raise UsageError(f"TARGETS of the plugin {module.__name__} is {several!r}: write a tuple of Target")
    found = (*([] if one is None else [one]), *several)
    for each in found:
        if not isinstance(each, Target):
            raise UsageError(f"the plugin {module.__name__} has {each!r} for a target: write Target(...)")
    return found


def choose(
    targets: Sequence[Target], backend: str | None, device_type: str | None, *, where: str
) -> Target | None:
    """The one of a plugin's targets that was asked for; None where the plugin has none at all.

    ``where`` names the plugin in messages. UsageError, in one line, where none fits, or several do.
    """
    fitting = [
        each
        for each in targets
        if backend in (None, each.backend) and device_type in (None, each.device_type)
    ]
    if not targets or len(fitting) == 1:
        return fitting[0] if fitting else None
    listed = ", ".join(f"{each.backend} on {each.device_type}" for each in (fitting or targets))
    if fitting:
        raise UsageError(f"{where} has several targets ({listed}): say which by --backend and --device")
    asked = " on ".join(word for word in (backend, device_type) if word)
    raise UsageError(f"{where} has no target {asked}; it has {listed}")


def _gist(error: BaseException) -> str:
    """The exception in one line, with the place where it was raised unless that is the import itself."""
    said = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.isfile(frame.filename)]
    last = frames[-1] if frames else None
    if last is None or os.path.dirname(last.filename) in (_HERE, os.path.dirname(importlib.__file__)):
        return text
    return f"{text} ({last.filename}:{last.lineno})"


_HERE = os.path.dirname(os.path.abspath(__file__))
