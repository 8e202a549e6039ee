"""``--show-config``: what holds for a run, and for each value where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from harness.configuration.keys import KEYS, OF_THE_PROJECT, Key, shown
from harness.configuration.override import Override, Quarantine, Reruns
from harness.runner.command_line.invocation import Invocation
from harness.runner.command_line.options import parse
from harness.settings import Settings

_PRECEDENCE = "command line, environment, profile, file, default: the first that says something holds"
# Columns of the values, beside which their origins stand.
_WIDTH = 44


def lines_of(invocation: Invocation) -> Iterator[str]:
    """Yields the lines to print."""
    configuration = invocation.configuration
    yield f"file: {configuration.path or 'none'}"
    yield f"profile: {configuration.profile or 'none'}"
    yield f"precedence: {_PRECEDENCE}"
    yield ""
    for key in KEYS:
        value, origin = _value(invocation, key)
        yield f"{f'{key.name} = {value}':{_WIDTH}}  {origin}"
    for name, given in configuration.environment.items():
        set_here = name not in invocation.from_file
        text = shown(invocation.environ[name] if set_here else given.value)
        yield f"{f'environment.{name} = {text}':{_WIDTH}}  {'environment' if set_here else given.origin}"
    for name, limit in configuration.groups.items():
        yield f"{f'groups.{name}.limit = {limit.value}':{_WIDTH}}  {limit.origin}"
    if configuration.overrides:
        yield ""
        yield "overrides, of which for each part the first that is about a test holds:"
        for override in configuration.overrides:
            yield f"  {_parts(override):{_WIDTH}}  {override.origin}"


def _value(invocation: Invocation, key: Key) -> tuple[str, str]:
    """A key's value as text, and where it comes from."""
    option = key.name.replace("-", "_")
    given = invocation.configuration.values.get(key.name)
    if option in invocation.chosen:
        return _text(invocation.chosen[option]), "command line"
    if key.variable and key.variable not in invocation.from_file and invocation.environ.get(key.variable):
        return _of_variable(key, invocation.environ[key.variable]), f"environment: {key.variable}"
    if given is not None:
        return _text(given.value), given.origin
    if key.variable:
        return _of_variable(key, Settings().to_environ().get(key.variable, "")), "default"
    return "none" if key.name in OF_THE_PROJECT else _text(vars(parse([]))[option]), "default"


def _of_variable(key: Key, text: str) -> str:
    """The text of an environment variable as the file would have it."""
    if key.kind == "flag":
        return "true" if text == "1" else "false"
    return text if key.kind == "number" and text else _text(text or None)


def _text(value: object) -> str:
    if isinstance(value, Reruns):
        return shown(_table(value))
    return "none" if value in (None, []) else shown(value)


def _table(value: Any) -> dict[str, object]:
    """A dataclass of the file's as a table, without what is at its default."""
    return {
        each.name.removesuffix("_s").replace("_", "-"): getattr(value, each.name)
        for each in fields(value)
        if getattr(value, each.name) != each.default and each.name != "origin"
    }


def _parts(override: Override) -> str:
    parts: Mapping[str, object] = _table(override.rule)
    words = [f"tests = {shown(override.tests)}"]
    for name, value in parts.items():
        if isinstance(value, Reruns | Quarantine):
            value = {n: str(v) if n == "until" else v for n, v in _table(value).items()}
        if value != {}:
            words.append(f"{name} = {shown(value)}")
    return ", ".join(words)
