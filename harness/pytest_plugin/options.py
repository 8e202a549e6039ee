"""The options of the pytest plugin, and the environment variables that they set.

Options of which pytest has a word of its own (``-x``, ``--lf``, ``--durations``, ``-s``) are not repeated
here. Names that a project may well use for an option of its own are ``shared``: the plugin adds them after
the project's ``conftest.py`` files, and leaves a name to a project that has taken it.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.configuration.configuration import Configuration
from harness.errors import UsageError
from harness.setting_values import LARGEST_SEED
from harness.settings import COMM_CHECKS, LAUNCHERS, RANK_MODES, RANK_OUTPUTS, TIMEOUT_S, EnvVar, Settings

GROUP = "torch-harness"


@dataclass(frozen=True, slots=True)
class Option:
    """A command-line option; ``metavar`` is "" for a flag, ``variable`` "" where it sets none."""

    name: str
    variable: str
    metavar: str
    help: str
    shared: bool = False

    @property
    def dest(self) -> str:
        """The attribute of ``config.option`` that has the value."""
        return f"torch_harness_{self.name.lstrip('-').replace('-', '_')}"


SHARD = Option(
    "--shard",
    "",
    "I/N",
    "only part I of N, counted from 1; without it the environment is asked, where tests of the harness "
    "are collected",
    shared=True,
)
SHARD_TIMINGS = Option(
    "--shard-timings", "", "FILE", "recorded times, for shards of equal length; all shards need the same file"
)
DROP_IN = Option(
    "--drop-in", EnvVar.DROP_IN, "", "test cases of torch.testing._internal get the harness's ranks"
)
PDB_RANK = Option(
    "--pdb-rank",
    EnvVar.PDB_RANK,
    "N",
    "give rank N the terminal, for breakpoint() and failures; no time limits, and no capture as with -s",
)
RANK_OUTPUT = Option(
    "--rank-output",
    EnvVar.RANK_OUTPUT,
    "|".join(RANK_OUTPUTS),
    "keep what ranks print for the report, show its lines with the rank in front, or show it as it comes; "
    "with -s the default is stream",
)

OPTIONS = (
    DROP_IN,
    Option(
        "--ranks",
        EnvVar.RANKS,
        "|".join(RANK_MODES),
        "what ranks are, where the test's class allows it",
        shared=True,
    ),
    Option(
        "--rank-timeout",
        EnvVar.TIMEOUT,
        "SECONDS",
        f"deadline of a test on ranks that sets none (default {TIMEOUT_S:g}, with --drop-in upstream's)",
    ),
    Option(
        "--rank-timeout-multiplier",
        EnvVar.TIMEOUT_MULTIPLIER,
        "N",
        "multiplies the deadline of every test on ranks, those by @timeout too: for slow or busy machines",
    ),
    Option("--rank-launcher", EnvVar.LAUNCHER, "|".join(LAUNCHERS), "how ranks start"),
    RANK_OUTPUT,
    Option("--rank-log-dir", EnvVar.LOG_DIR, "DIR", "keep all that each rank prints in a file in DIR"),
    Option(
        "--rank-strict",
        EnvVar.STRICT,
        "",
        "a test that leaves processes behind, or kept ranks changed, is an error",
    ),
    Option(
        "--communication-check",
        EnvVar.COMM_CHECK,
        "|".join(COMM_CHECKS),
        "how what is wrong with the communication of ranks is taken",
    ),
    Option("--backend", EnvVar.TARGET_BACKEND, "NAME", "the backend that suites test", shared=True),
    Option("--device", EnvVar.TARGET_DEVICE, "TYPE", "the device type that they test it on", shared=True),
    Option(
        "--plugin",
        EnvVar.PLUGIN,
        "MODULE",
        "registers that backend or device, and has its TARGET",
        shared=True,
    ),
    PDB_RANK,
    SHARD,
    SHARD_TIMINGS,
    Option(
        "--harness-seed",
        EnvVar.SEED,
        "N",
        f"seed of every random generator in tests of the harness (0 to {LARGEST_SEED})",
    ),
    Option("--harness-examples", EnvVar.EXAMPLES, "N", "random examples of each property test"),
    Option("--harness-chaos", EnvVar.CHAOS, "SEED", "random delays of ranks around communication"),
    Option("--harness-slow", EnvVar.SLOW, "", "tests that are marked as slow run too"),
    Option("--harness-accept", EnvVar.ACCEPT, "", "rewrite expected outputs in the tests' sources"),
)


class Group(Protocol):
    """What options are added to: pytest's ``OptionGroup``."""

    def addoption(self, *names: str, **attributes: Any) -> None:
        """Adds an option; ValueError or ArgumentError where its name is taken."""
        ...


def register(group: Group, *, shared: bool) -> None:
    """Adds the options that are ``shared``, or those that are not.

    A shared name that is taken is left to whoever has taken it.
    """
    for option in OPTIONS:
        if option.shared == shared:
            taken = (ValueError, argparse.ArgumentError) if shared else ()
            with contextlib.suppress(*taken):
                _add(group, option)


def _add(group: Group, option: Option) -> None:
    of_variable = f" ({option.variable})" if option.variable else ""
    text = (option.help + of_variable).replace("%", "%%")
    if option.metavar:
        group.addoption(option.name, dest=option.dest, metavar=option.metavar, default=None, help=text)
    else:
        group.addoption(option.name, dest=option.dest, action="store_true", default=False, help=text)


def given(namespace: object) -> dict[str, str]:
    """The options that a command line has, by name, each with its text; flags have "1"."""
    values = ((option.name, getattr(namespace, option.dest, None)) for option in OPTIONS)
    return {
        name: "1" if value is True else str(value) for name, value in values if value not in (None, False)
    }


def variables(values: Mapping[str, str]) -> dict[str, str]:
    """The environment variables for the options in ``values``.

    UsageError, one line that names the option, for a value that cannot be used.
    """
    return {option.variable: _checked(option, values[option.name]) for option in _setting(values)}


def of_file(configuration: Configuration) -> dict[str, str]:
    """The environment variables for what a project's configuration file says of tests under pytest."""
    drop_in = configuration.values.get("drop-in")
    asked = {EnvVar.DROP_IN: "1"} if drop_in is not None and drop_in.value else {}
    return {**configuration.variables, **asked}


def _setting(values: Mapping[str, str]) -> Iterable[Option]:
    return (option for option in OPTIONS if option.variable and option.name in values)


def _checked(option: Option, text: str) -> str:
    if not text.strip():
        raise UsageError(f"{option.name} {text!r}: write {option.metavar}")
    try:
        Settings.from_environ({option.variable: text})
    except UsageError as error:
        reason = str(error).removeprefix(f"{option.variable}={text.strip()!r}: ")
        raise UsageError(f"{option.name} {text!r}: {reason}") from None
    return text
