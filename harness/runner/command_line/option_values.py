"""The values that a command line, a configuration file or an earlier run gives to options.

They are kept by the options' names in the namespace of ``options.parse``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.configuration.configuration import Given
from harness.configuration.override import Reruns
from harness.errors import UsageError
from harness.runner.command_line.options import FILE_FLAGS, build


def given(argv: Sequence[str]) -> dict[str, Any]:
    """The options that a command line names, defaults too, with their values."""
    parser = build()
    for action in parser._actions:  # argparse has no public list of them
        action.default = argparse.SUPPRESS
    options, _ = parser.parse_known_intermixed_args(list(argv))
    found = vars(options)
    return found if found.get("names") else {name: found[name] for name in found if name != "names"}


def of_file(options: Mapping[str, Given]) -> dict[str, Any]:
    """The options that a configuration file gives values, as a command line would.

    UsageError, which names the place in the file, for a value that the command line would not take.
    """
    found: dict[str, Any] = {}
    for name, option in options.items():
        words = _words(name, option.value)
        try:
            found.update(given(words))
        except UsageError as error:
            reason = re.sub(rf"^argument (-\w/)?--{name}: ", "", str(error))
            raise UsageError(f"{option.origin}: {name}: {reason}") from None
    return found


def _words(name: str, value: object) -> list[str]:
    """The words of a command line that give an option the value of a file."""
    if isinstance(value, bool):
        return [f"--{name}"] if value or name not in FILE_FLAGS else [f"--no-{name}"]
    if name in ("verbose", "quiet"):
        return [f"--{name}"] * (value if isinstance(value, int) else 0)
    if isinstance(value, Reruns):
        value = value.count
    values = value if isinstance(value, list) else [value]
    return [f"--{name}={each}" for each in values]


def wrong_option(options: Mapping[str, Any]) -> str | None:
    """The name of an option with a value that no command line gives it; None where there is none.

    Names in ``options`` that are of no option are ignored.
    """
    actions = {action.dest: action for action in build()._actions}  # argparse has no public list of them
    known = ((actions[name], value) for name, value in options.items() if name in actions)
    return next((action.dest for action, value in known if not _possible(action, value)), None)


def _possible(action: argparse.Action, value: object) -> bool:
    """Whether the option can have this value."""
    several = action.nargs == "*" or isinstance(action.default, list)
    if several:
        return isinstance(value, list) and all(_converted(action, each) for each in value)
    if type(value) is type(action.default) and (value == action.default or action.type is None):
        return action.choices is None or value in action.choices
    if isinstance(value, bool) or isinstance(action.default, bool):
        return False
    return (value is not None and value == action.const) or _converted(action, value)


def _converted(action: argparse.Action, value: object) -> bool:
    """Whether the value comes from a word of a command line."""
    if action.type is None:
        return isinstance(value, str) and (action.choices is None or value in action.choices)
    if not callable(action.type) or not isinstance(value, int | float | str):
        return False
    try:
        return bool(action.type(f"{value}") == value)
    except (argparse.ArgumentTypeError, ValueError):
        return False
