"""``Configuration``: what a project's file and the chosen profile say, each value with its place in the file.

::

    [tool.torch-harness]            in pyproject.toml; at the top of torch-harness.toml
    test-paths = ["tests"]
    jobs = 4

    [tool.torch-harness.environment]
    NCCL_DEBUG = "WARN"

    [tool.torch-harness.profiles.ci]            --profile ci
    reruns = { count = 2, delay = 1.0, backoff = "exponential" }

    [[tool.torch-harness.overrides]]
    tests = "test_ports.*"
    group = "ports"
    quarantine = { until = 2026-12-31, reason = "the port is taken now and then" }

    [tool.torch-harness.groups.ports]
    limit = 1

A value comes from the command line, else the environment, else the profile, else the file, else the default.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration import override
from harness.configuration.document import Document
from harness.configuration.keys import BY_NAME, OF_THE_PROJECT, as_variable, check_names, checked
from harness.configuration.override import MOST, Override, Reruns
from harness.configuration.similar import perhaps
from harness.errors import UsageError

PROFILES, OVERRIDES, GROUPS, ENVIRONMENT = "profiles", "overrides", "groups", "environment"
_TABLES = (ENVIRONMENT, OVERRIDES)


@dataclass(frozen=True, slots=True)
class Given:
    """A value of the file, and where it stands: ``pyproject.toml:12``, with its profile."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file and one of its profiles say together; without a file, nothing.

    ``values`` are by key, those of the profile over those of the file; ``groups`` has the largest number of
    tests of each group that run at once, as a number. Overrides of the profile come before the file's.
    """

    path: Path | None = None
    profile: str | None = None
    values: Mapping[str, Given] = field(default_factory=dict)
    environment: Mapping[str, Given] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    groups: Mapping[str, Given] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that the file stands for, which those of the environment replace."""
        settings = {BY_NAME[name].variable: given for name, given in self.values.items()}
        found = {variable: as_variable(given.value) for variable, given in settings.items() if variable}
        return {**{name: given.value for name, given in self.environment.items()}, **found}

    @property
    def options(self) -> dict[str, Given]:
        """The options of ``run_tests.py`` that the file gives a value, by their long names without dashes."""
        return {
            name: given
            for name, given in self.values.items()
            if not BY_NAME[name].variable and name not in OF_THE_PROJECT
        }

    @property
    def test_paths(self) -> tuple[str, ...]:
        """The paths of the project's tests; none where the file does not say."""
        return self._several("test-paths")

    @property
    def other_variables(self) -> tuple[str, ...]:
        """Shell patterns of variables named HARNESS_... that belong to somebody else."""
        return self._several("other-variables")

    def _several(self, name: str) -> tuple[str, ...]:
        return tuple(self.values[name].value) if name in self.values else ()


def parse(document: Document | None, profile: str | None = None) -> Configuration:
    """The configuration in a document under one of its profiles.

    All profiles are checked. UsageError, which names the file, the key and mostly the line, for what cannot
    be used; also for a profile that there is not.
    """
    if document is None:
        if profile is not None:
            raise UsageError(f"profile {profile}: there is no configuration file here that could have it")
        return Configuration()
    table = document.table
    groups = _groups(document)
    check_names(table, (*BY_NAME, *_TABLES, PROFILES, GROUPS), document.where)
    profiles = _tables(document, PROFILES)
    layers = {name: _layer(document, each, groups, (PROFILES, name)) for name, each in profiles.items()}
    if profile is not None and profile not in layers:
        raise UsageError(f"{document.path}: no profile {profile}{perhaps(profile, layers, _listed(layers))}")
    file = _layer(document, table, groups, ())
    chosen = layers[profile] if profile is not None else _Layer()
    return Configuration(
        document.path,
        profile,
        {**file.values, **chosen.values},
        {**file.environment, **chosen.environment},
        (*chosen.overrides, *file.overrides),
        groups,
    )


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return f"it has {', '.join(names)}" if names else "it has no profiles"


@dataclass(frozen=True, slots=True)
class _Layer:
    """What the file itself or one of its profiles says."""

    values: Mapping[str, Given] = field(default_factory=dict)
    environment: Mapping[str, Given] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()


def _layer(
    document: Document, table: Mapping[str, Any], groups: Collection[str], table_place: tuple[str, ...]
) -> _Layer:
    where = functools.partial(document.where, *table_place)
    name = f"profile {table_place[-1]}, " if table_place else ""
    if table_place:
        check_names(table, (*BY_NAME, *_TABLES), where)
    values = {}
    for key, value in table.items():
        if key in BY_NAME:
            place = functools.partial(where, key)
            values[key] = Given(_value(key, value, document.path.parent, place), name + where(key))
    found = override.environment_of(table.get(ENVIRONMENT, {}), lambda: where(ENVIRONMENT))
    environment = {
        variable: Given(text, name + where(ENVIRONMENT, variable)) for variable, text in found.items()
    }
    return _Layer(values, environment, tuple(_overrides(table.get(OVERRIDES, []), groups, where)))


def _value(key: str, value: object, directory: Path, place: Callable[[], str]) -> Any:
    read = checked(BY_NAME[key], value, directory, place())
    return override.reruns_of(read, place) if BY_NAME[key].kind == "reruns" else read


def _overrides(tables: object, groups: Collection[str], where: Callable[..., str]) -> Iterable[Override]:
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise UsageError(f"{where(OVERRIDES)}: write each override as [[overrides]], an array of tables")
    for number, table in enumerate(tables):
        yield override.read(table, groups, functools.partial(where, OVERRIDES, number))


def _tables(document: Document, name: str) -> Mapping[str, Mapping[str, Any]]:
    found = document.table.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise UsageError(f"{document.where(name)}: write [{name}.NAME], a table of each")
    return found


def _groups(document: Document) -> dict[str, Given]:
    limits = {}
    for name, table in _tables(document, GROUPS).items():
        where = document.where(GROUPS, name)
        check_names(table, ("limit",), functools.partial(document.where, GROUPS, name))
        limit = table.get("limit")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
            raise UsageError(
                f"{where}: a group has a limit, the largest number of its tests that run at once: limit = 1"
            )
        limits[name] = Given(limit, where)
    return limits


__all__ = ["Configuration", "Given", "Reruns", "parse"]
