"""The keys that may stand in a configuration file, and how their values are read.

A key with a ``variable`` is a setting of the library, which any process of tests reads from its environment;
it means what that variable means. The others are options of ``run_tests.py`` of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.similar import perhaps
from harness.errors import UsageError
from harness.settings import EnvVar, Settings

# Words for each kind of value, as an error tells what to write.
_KINDS = {
    "flag": "true or false",
    "number": "a number",
    "text": "a text",
    "path": "a path, relative to this file",
    "texts": "a text or a list of texts",
    "paths": "a path or a list of paths, relative to this file",
    "word": "a text or a number",
    "reruns": 'a number, or a table such as { count = 2, delay = 1.0, backoff = "exponential" }',
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the file or a profile, the kind of its value, and the variable that it stands for, or ""."""

    name: str
    kind: str
    variable: str = ""


_TEST_PATHS = Key("test-paths", "paths")
_OTHER_VARIABLES = Key("other-variables", "texts")

KEYS = (
    _TEST_PATHS,
    _OTHER_VARIABLES,
    # settings of the library
    Key("timeout", "number", EnvVar.TIMEOUT),
    Key("timeout-multiplier", "number", EnvVar.TIMEOUT_MULTIPLIER),
    Key("seed", "number", EnvVar.SEED),
    Key("launcher", "text", EnvVar.LAUNCHER),
    Key("ranks", "text", EnvVar.RANKS),
    Key("rank-output", "text", EnvVar.RANK_OUTPUT),
    Key("strict", "flag", EnvVar.STRICT),
    Key("communication-check", "text", EnvVar.COMM_CHECK),
    Key("log-dir", "path", EnvVar.LOG_DIR),
    Key("grace", "number", EnvVar.GRACE),
    Key("exit-grace", "number", EnvVar.EXIT_GRACE),
    Key("skip-grace", "number", EnvVar.SKIP_GRACE),
    Key("examples", "number", EnvVar.EXAMPLES),
    Key("chaos", "number", EnvVar.CHAOS),
    Key("slow", "flag", EnvVar.SLOW),
    Key("backend", "text", EnvVar.TARGET_BACKEND),
    Key("device", "text", EnvVar.TARGET_DEVICE),
    Key("plugin", "text", EnvVar.PLUGIN),
    Key("state-dir", "path", EnvVar.STATE_DIR),
    # options of run_tests.py
    Key("drop-in", "flag"),
    Key("include", "texts"),
    Key("exclude", "texts"),
    Key("record-map", "flag"),
    Key("jobs", "word"),
    Key("isolate", "flag"),
    Key("reruns", "reruns"),
    Key("flaky", "text"),
    Key("failfast", "flag"),
    Key("shuffle", "word"),
    Key("verbose", "number"),
    Key("quiet", "number"),
    Key("durations", "number"),
    Key("report", "texts"),
    Key("report-dir", "path"),
    Key("trace", "flag"),
    Key("timings", "path"),
)
BY_NAME: Mapping[str, Key] = {key.name: key for key in KEYS}
# Keys that are neither settings nor options: what a file says of which tests there are, and of variables.
OF_THE_PROJECT = (_TEST_PATHS.name, _OTHER_VARIABLES.name)


def checked(key: Key, value: object, directory: Path, where: str) -> Any:
    """The value of a key: paths absolute, those of the file below ``directory``; a list where several may be.

    UsageError, which begins with ``where``, for a value of another kind or that the setting does not take.
    """
    if not _is_of(key.kind, value):
        raise UsageError(f"{where}: {key.name} = {shown(value)}: write {_KINDS[key.kind]}")
    if key.kind in ("texts", "paths"):
        value = [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload]  # checked above
    if key.kind == "paths":
        value = [str(directory / each) for each in value]  # type: ignore[attr-defined]  # a list by now
    elif key.kind == "path":
        value = str(directory / str(value))
    if key.variable:
        check_setting(key.name, key.variable, as_variable(value), where)
    return value


def _is_of(kind: str, value: object) -> bool:
    if kind == "flag":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return kind == "word" and value
    if kind == "number":
        return isinstance(value, int | float)
    if kind in ("text", "path"):
        return isinstance(value, str)
    if kind == "word":
        return isinstance(value, str | int)
    if kind == "reruns":
        return isinstance(value, int | dict)
    several = value if isinstance(value, list) else [value]
    return all(isinstance(each, str) for each in several)


def check_setting(name: str, variable: str, text: str, where: str) -> None:
    """UsageError, which begins with ``where``, where a setting cannot have this value."""
    try:
        Settings.from_environ({variable: text})
    except UsageError as error:
        reason = str(error).removeprefix(f"{variable}={text.strip()!r}: ")
        raise UsageError(f"{where}: {name} = {text}: {reason}") from None


def as_variable(value: object) -> str:
    """A value of the file as the text of an environment variable."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return repr(value) if isinstance(value, float) else str(value)


def shown(value: object) -> str:
    """A value in an error or in ``--show-config``, much as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {shown(each)}" for name, each in value.items()) + " }"
    return str(value)


def check_names(table: Mapping[str, Any], known: Mapping[str, Any] | tuple[str, ...], where: Any) -> None:
    """UsageError for the first key of a table that is unknown; ``where`` takes it and returns its place."""
    for name in table:
        if name not in known:
            listed = "the keys are " + ", ".join(known)
            raise UsageError(f"{where(name)}: unknown key {name}{perhaps(name, known, listed)}")
