"""``--print-completion``: the script with which a shell completes the options, made by shtab."""

from __future__ import annotations

import argparse
from typing import Any

from harness.errors import UsageError

SHELLS = ("bash", "zsh", "tcsh")
# What an option's value or a name is, by the word that stands for it in --help.
_FILES = ("FILE", "NAME")
_DIRECTORIES = ("DIR",)


class PrintCompletion(argparse.Action):
    """An option that prints the script for a shell and ends the program, as ``--help`` does."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: Any, option: str | None = None
    ) -> None:
        """Prints the script for the shell that is the option's value."""
        print(script(parser, str(values)))
        parser.exit(0)


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for one of ``SHELLS``. UsageError where shtab is not installed."""
    try:
        import shtab  # an extra, which only this needs
    except ImportError:
        message = "--print-completion needs shtab: pip install 'torch-harness[completion]'"
        raise UsageError(message) from None
    for action in parser._actions:
        kind = shtab.FILE if action.metavar in _FILES else None
        kind = shtab.DIRECTORY if action.metavar in _DIRECTORIES else kind
        if kind is not None:
            action.complete = kind  # type: ignore[attr-defined]  # shtab reads it
    return str(shtab.complete(parser, shell=shell))
