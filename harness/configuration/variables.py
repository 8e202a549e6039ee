"""The environment variables named HARNESS_...: which are known, and what a configuration file stands for.

``run_tests.py``, the pytest plugin and test modules that are run by themselves ask here, once, before tests
run. Workers and ranks get the environment that was made then.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from fnmatch import fnmatchcase
from pathlib import Path

from harness.configuration import configuration, document
from harness.configuration.configuration import Configuration
from harness.configuration.similar import perhaps, similar
from harness.errors import UsageError
from harness.settings import BUILD_SERVICE_VARIABLES, EnvVar
from harness.variables import VARIABLES

PREFIX = "HARNESS_"
# The value of HARNESS_CONFIG with which no file is read.
NO_FILE = "none"
# Set by the runner for its workers.
_INTERNAL = (EnvVar.WORKER, EnvVar.TEST_TIMEOUT, EnvVar.EXECUTED, EnvVar.RUNNING_TEST)
_OURS = tuple(variable.name for variable in VARIABLES if variable.name.startswith(PREFIX))
_KNOWN = (*_OURS, *_INTERNAL)
# How much alike a typing error and the variable are at least, behind the prefix, where a build service sets
# variables of the same beginning: there an unknown one is an error only if it looks like one of ours.
_TYPING_ERROR = 0.8


def read(environ: Mapping[str, str], cwd: Path, *, file: str = "", profile: str = "") -> Configuration:
    """The configuration that holds in a directory, under the profile; both are the environment's by default.

    ``file`` names one in place of the nearest, or is "none". UsageError as of ``configuration.parse``.
    """
    named = file or environ.get(EnvVar.CONFIG, "").strip()
    chosen = profile or environ.get(EnvVar.PROFILE, "").strip() or None
    if named == NO_FILE:
        return configuration.parse(None, chosen)
    found = document.read((cwd / named).resolve()) if named else document.find(cwd)
    return configuration.parse(found, chosen)


def apply(environ: MutableMapping[str, str]) -> Configuration:
    """Sets the variables for which the file of the working directory stands and that ``environ`` lacks.

    Returns the configuration. UsageError as of ``configuration.parse``.
    """
    try:
        cwd = Path.cwd()
    except FileNotFoundError:  # removed: there is nothing above it
        return Configuration()
    found = read(environ, cwd)
    for name, text in found.variables.items():
        environ.setdefault(name, text)
    return found


def check(environ: Mapping[str, str], others: tuple[str, ...] = ()) -> None:
    """UsageError for a variable HARNESS_... that the harness does not know; ``others`` are somebody else's.

    A variable with a typing error would otherwise be ignored without a word.
    """
    build_service = any(name in environ for name in BUILD_SERVICE_VARIABLES)
    for name in environ:
        if not name.startswith(PREFIX) or name in _KNOWN or any(fnmatchcase(name, each) for each in others):
            continue
        if build_service and not _looks_like_ours(name):
            continue
        raise UsageError(
            f"{name}: no such variable of the harness"
            f"{perhaps(name, _OURS, 'unset it, or name it in other-variables of a configuration file')}"
        )


def _looks_like_ours(name: str) -> bool:
    ours = [known.removeprefix(PREFIX) for known in _OURS]
    return bool(similar(name.removeprefix(PREFIX), ours, cutoff=_TYPING_ERROR))
