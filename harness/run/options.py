"""The options of ``torch-harness run``, their help, and the errors for wrong ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from harness.errors import UsageError
from harness.run.torchrun_variables import NAMES
from harness.setting_values import positive_seconds
from harness.settings import RANK_OUTPUTS, EnvVar

# More ranks on one machine are a typing error.
MOST_RANKS = 4096
LARGEST_PORT = 65535

_DESCRIPTION = """\
Runs a Python script on N ranks of this machine, each a process with torchrun's environment variables. The
script needs no change and imports nothing of the harness. What comes behind SCRIPT or MODULE is the script's.

A run fails with its first rank: one that ends by an exception, by an exit code other than 0, or by a signal.
The others are asked what they wait for and are ended, and a report says which rank was first, and where.
A rank that leaves the script waits until all have, and a run without --timeout has no deadline."""

_EPILOG = f"""\
exit codes:
  0    every rank ended with exit code 0: by the script's end, sys.exit(0) or os._exit(0)
  1    a rank failed, or --timeout was over
  2    wrong arguments or environment variables, or no such script; nothing was run
  3    the harness itself failed
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP, which end all ranks; a second time at once
  141  nobody reads what the ranks print (| head), which ends them all

variables that each rank gets:
  {{names}}
  OMP_NUM_THREADS, where it is not set: an equal share of the processors

environment variables of the harness that count here (options win):
  {EnvVar.LAUNCHER}=forkserver|spawn  how ranks start; by default torch is imported once, before the
        script begins: what torch reads from the environment at its import is set outside of the script
  {EnvVar.GRACE}=seconds  for the other ranks to end by themselves after the first failure
  {EnvVar.LOG_DIR}=directory  the same as --log-dir
  {EnvVar.PDB_RANK}=N  gives rank N the terminal, for breakpoint(); all others have no standard input

tests in a suite that is called run are named by suites.run or ./run, without this command"""


@dataclass(frozen=True, slots=True)
class Options:
    """What a command line asks for; ``target`` is the script's path as given, or ``by_name`` a module's name.

    ``arguments`` are the script's own. What the command line does not say is None.
    """

    ranks: int
    target: str
    by_name: bool = False
    arguments: tuple[str, ...] = ()
    timeout_s: float | None = None
    output: str | None = None
    log_dir: str | None = None
    master_port: int | None = None


def parse(words: Sequence[str], prog: str) -> Options:
    """The options of a command line; UsageError, with one line of text, where they make no sense.

    ``--help`` prints and raises SystemExit(0).
    """
    parser = _build(prog)
    ours, theirs = parser.divide(list(words))
    known, unknown = parser.parse_known_args(ours)
    if unknown:
        raise UsageError(f"unknown option {unknown[0]}; --help lists the options")
    if known.ranks is None:
        raise UsageError("say how many ranks: -n N")
    if known.module is None and not theirs:
        raise UsageError("name a script, or a module by -m")
    return Options(
        ranks=known.ranks,
        target=theirs[0] if known.module is None else known.module,
        by_name=known.module is not None,
        arguments=tuple(theirs[1:] if known.module is None else theirs),
        timeout_s=known.timeout,
        output=known.output,
        log_dir=known.log_dir,
        master_port=known.master_port,
    )


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would exit, and knows where the script's own words begin."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def divide(self, words: list[str]) -> tuple[list[str], list[str]]:
        """The words up to the script or with the module's name, and the rest.

        argparse's REMAINDER is of no use: it takes out a "--" which is the script's.
        """
        with_value = {o for action in self._actions if action.nargs != 0 for o in action.option_strings}
        place = 0
        while place < len(words):
            word = words[place]
            if word == "--":
                return words[:place], words[place + 1 :]
            if word == "-" or not word.startswith("-"):
                return words[:place], words[place:]
            place += 2 if word in with_value else 1
            if word.startswith("-m"):
                return words[:place], words[place:]
        return words, []


def _build(prog: str) -> _Parser:
    parser = _Parser(
        prog=prog,
        usage=f"{prog} -n N [options] SCRIPT [ARGUMENT ...]\n"
        f"       {prog} -n N [options] -m MODULE [ARGUMENT ...]",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(names="\n  ".join(_rows(NAMES))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-n", "--nproc-per-node", "--nproc_per_node", dest="ranks", metavar="N", type=_whole(MOST_RANKS),
        help="how many ranks")  # fmt: skip
    add("-m", dest="module", metavar="MODULE", help="run a module by its name, as python -m does")
    add("--timeout", metavar="SECONDS", type=_seconds,
        help="end ranks that still run after so long (default: never)")  # fmt: skip
    add("--output", choices=RANK_OUTPUTS,
        help="what ranks print: shown by lines with [rank N] in front (stream, the default), shown as it "
        "comes (raw, the default for one rank), or kept, and its end shown for a failed rank (capture); "
        "standard error goes where standard output goes")  # fmt: skip
    add("--log-dir", metavar="DIR", help="keep what each rank prints in a file there too, up to 64 MiB")
    add("--master-port", "--master_port", metavar="PORT", type=_whole(LARGEST_PORT),
        help="MASTER_PORT (default: a free one, which is kept free for rank 0)")  # fmt: skip
    return parser


def _rows(names: Sequence[str]) -> list[str]:
    return [", ".join(names[i : i + 4]) for i in range(0, len(names), 4)]


def _whole(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r}: write a whole number from 1 to {most}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        return positive_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
