"""The options of ``run_tests.py``, with a line of help for each, and the errors for wrong ones."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

import harness
from harness.configuration.similar import perhaps
from harness.errors import UsageError
from harness.runner.command_line.completion import SHELLS, PrintCompletion
from harness.runner.command_line.help_text import DESCRIPTION, epilog
from harness.runner.selection.expression import any_of
from harness.setting_values import (
    LARGEST_SEED,
    name_of_backend,
    name_of_device,
    name_of_module,
    positive_seconds,
    timeout_multiplier,
)
from harness.settings import PLACEMENTS, RANK_MODES, TIMEOUT_S, EnvVar

TREE_PROGRAM = "run_tests.py"
INSTALLED_PROGRAM = "torch-harness"
# A larger number of processes is a typing error.
LARGEST_JOBS = 4096
LARGEST_COUNT = 1_000_000

T = TypeVar("T")


def program() -> str:
    """What this command is called: as the installed one where that was started."""
    name = os.path.basename(sys.argv[0])
    return name if name == INSTALLED_PROGRAM else TREE_PROGRAM


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would exit, and suggests options in place of an unknown one."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def perhaps(self, unknown: str) -> str:
        """The end of a message about an unknown option, with the options that are most like it."""
        known = [option for action in self._actions for option in action.option_strings]
        return perhaps(unknown.split("=", 1)[0], known, "--help lists the options")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; UsageError, with one line of text, where they make no sense.

    ``--help`` prints and raises SystemExit(0).
    """
    parser = build()
    options, unknown = parser.parse_known_intermixed_args(list(argv))
    for word in unknown:
        if word.startswith("-"):
            raise UsageError(f"unknown option {word}{parser.perhaps(word)}")
    _check(options)
    return options


def _check(options: argparse.Namespace) -> None:
    if options.config is not None and options.no_config:
        raise UsageError("--config and --no-config exclude each other")
    if options.json and not options.list:
        raise UsageError("--json goes with --list; results are always in results.jsonl")
    if options.until_fail and options.reruns:
        raise UsageError("--until-fail and --reruns exclude each other: a rerun would hide the failure")
    any_of(options.expression)
    if options.resume is not None and options.names and (options.resume or options.report_dir is None):
        raise UsageError(
            "--resume goes on with what that run selected: give no names (a directory: --resume=DIR), "
            "or --report-dir, for a command that begins there or goes on"
        )
    if options.resume is not None and options.last_failed:
        raise UsageError("--resume and --last-failed exclude each other")
    if options.also and (options.backend or options.device or options.plugin or options.hosts is not None):
        raise UsageError(
            "--also goes with none of --backend, --device, --plugin, --hosts: it tests the CPU first"
        )
    if options.pdb and options.pdb_rank is not None:
        raise UsageError("--pdb and --pdb-rank exclude each other")


def build() -> _Parser:
    """Makes the parser with all options."""
    parser = _Parser(
        prog=(prog := program()),
        usage=f"{prog} [options] [NAME ...]\n       {prog} run -n N SCRIPT [ARGUMENT ...]",
        description=DESCRIPTION,
        epilog=epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{INSTALLED_PROGRAM} {harness.__version__}")
    parser.add_argument(
        "--print-completion", choices=SHELLS, action=PrintCompletion, default=argparse.SUPPRESS,
        help="print the script by which that shell completes options (needs shtab)")  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="NAME", help=argparse.SUPPRESS)
    _selection(parser)
    _repetition(parser)
    _target(parser)
    _placement(parser)
    _hosts(parser)
    _debugging(parser)
    _reports(parser)
    _configuration(parser)
    return parser


def _selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which tests")
    add = group.add_argument
    add("-k", dest="keywords", metavar="PATTERN", action="append", default=[],
        help="only tests whose id contains PATTERN, or matches it if it has a *; repeatable")  # fmt: skip
    add("-E", "--expression", metavar="EXPRESSION", action="append", default=[],
        help="only tests for which it holds: 'suite(c10d) & ranks(>=4) & !slow | failed(last)' "
        "(docs/running.rst); repeatable")  # fmt: skip
    add("--include", metavar="PATTERN", action="append", default=[],
        help="only modules or tests that match this shell pattern (c10d); repeatable")  # fmt: skip
    add("--exclude", metavar="PATTERN", action="append", default=[],
        help="not the modules or tests that match this shell pattern; repeatable")  # fmt: skip
    add("--suites", action="store_true",
        help="NAMEs are of the conformance suites alone, in any directory; without NAMEs all standard "
        "ones")  # fmt: skip
    add("--slow", action="store_true", default=None, help="the exhaustive operator and module sweeps too")
    add(
        "--last-failed",
        action="store_true",
        help="only what failed in the last run, and as it was run: --slow, --drop-in, --ranks and the like",
    )
    add("--changed", metavar="REV", nargs="?", const="HEAD",
        help="only tests that what has changed in this git repository since it left REV can affect (default: "
        "what is not committed), by the map of --record-map; of what the map does not know, all tests; "
        "NAMEs go before it, or --changed=REV")  # fmt: skip
    add("--affected-by", metavar="FILE", action="append", default=[],
        help="only tests that a change of FILE (of the project, or torch/...) can affect")  # fmt: skip
    add("--record-map", action="store_true",
        help="note which files each test executes, in workers and ranks, and add it to the map")  # fmt: skip
    add(
        "--shard", metavar="I/N", help="only part I of N, counted from 1; without it the environment is asked"
    )
    add("--resume", metavar="DIR", nargs="?", const="",
        help="go on with an interrupted run: its options and variables, those given now on top, and exactly "
        "its tests that have not finished "
        "(default: the last run; with --report-dir what the same command has begun there, and if there is "
        "nothing it begins)")  # fmt: skip
    add(
        "--list",
        action="store_true",
        help="print the id of each selected test and run none; what was known before is read from a cache",
    )
    add(
        "--json",
        action="store_true",
        help="with --list: a JSON object a line, with demand and expected seconds",
    )


def _repetition(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how often and in which order")
    add = group.add_argument
    add("--reruns", metavar="N", type=_count(0), default=0, help="run a test that failed up to N times more")
    add("--flaky", choices=("pass", "fail"), default="pass",
        help="whether a test that passed on a rerun lets the run pass (default: pass)")  # fmt: skip
    add("--failfast", action="store_true", help="stop at the first test that failed")
    add("--repeat", metavar="N", type=_count(1), help="run everything N times")
    add("--until-fail", action="store_true",
        help="run everything again and again until something fails, with --repeat N "
        "at most N times")  # fmt: skip
    add("--shuffle", metavar="SEED", nargs="?", type=_seed, const=-1,
        help="run the tests of each module in random order, in another one with each --repeat; "
        "the seed is printed")  # fmt: skip
    add("--examples", metavar="N", type=_count(1),
        help="random examples of each property test, of --seed or a seed that is drawn and printed "
        f"({EnvVar.EXAMPLES})")  # fmt: skip
    add("--chaos", metavar="SEED", type=_seed,
        help="delay ranks at random around communication, with --repeat by the next seed in each round; "
        f"what passes under one and fails under another is a race ({EnvVar.CHAOS})")  # fmt: skip
    add("--seed", metavar="N", type=_seed, help=f"seed of every random generator in tests ({EnvVar.SEED})")


def _target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is tested (docs/targets.rst)")
    add = group.add_argument
    add("--backend", metavar="NAME", type=_parsed(name_of_backend),
        help=f"the backend that the suites test (default: gloo; {EnvVar.TARGET_BACKEND})")  # fmt: skip
    add("--device", metavar="TYPE", type=_parsed(name_of_device),
        help=f"the device type that they test it on (default: cpu; {EnvVar.TARGET_DEVICE})")  # fmt: skip
    add("--plugin", metavar="MODULE", type=_parsed(name_of_module),
        help="a module that registers the backend or device and has its TARGET, which is tested "
        f"where the options above say nothing else ({EnvVar.PLUGIN})")  # fmt: skip
    add("--also", metavar="MODULE", type=_parsed(name_of_module), action="append", default=[],
        help="a plugin on whose target the tests that take an accelerator run again after the others; "
        "repeatable (default for the suites: suites.targets.nccl where this machine has GPUs, unless the "
        "options above say what is tested: --device cpu)")  # fmt: skip


def _placement(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where and how long")
    add = group.add_argument
    add("-j", "--jobs", metavar="N|auto", type=_jobs, default=0,
        help="CPU slots that tests share on each host (default: auto, three for two processors, "
        "because ranks wait for one another)")  # fmt: skip
    add("--timeout", metavar="SECONDS", type=_parsed(positive_seconds),
        help=f"deadline of a test that sets none itself ({EnvVar.TIMEOUT}; default {TIMEOUT_S:g}, "
        "with --drop-in upstream's)")  # fmt: skip
    add("--timeout-multiplier", metavar="N", type=_parsed(timeout_multiplier),
        help="multiplies every test's deadline, those by @timeout too: for slow or busy machines "
        f"({EnvVar.TIMEOUT_MULTIPLIER}; default 1)")  # fmt: skip
    add("--isolate", action="store_true", help="a worker process of its own for each test")
    add("--strict", action="store_true", default=None,
        help="a test that leaves processes behind, or kept ranks changed, is an error "
        f"({EnvVar.STRICT})")  # fmt: skip
    add("--drop-in", action="store_true",
        help="NAMEs are unmodified PyTorch test files: their cases get this harness's ranks")  # fmt: skip
    add("--ranks", choices=RANK_MODES,
        help=f"what ranks are, where the test's class allows it ({EnvVar.RANKS})")  # fmt: skip


def _hosts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("several hosts (docs/hosts.rst)")
    add = group.add_argument
    add("--hosts", metavar="WHERE",
        help="tests run on several hosts: slurm, torchrun or mpi in each process that srun, torchrun "
        "or mpirun has started, one a host; N@HOST:PORT where N agents (python -m harness.agent HOST:PORT) "
        "come, this host's own among them")  # fmt: skip
    add("--placement", choices=PLACEMENTS,
        help="a test's ranks on as few hosts as have room for them (packed, the default) or on all of them "
        f"({EnvVar.PLACEMENT})")  # fmt: skip


def _debugging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("debugging")
    add = group.add_argument
    add("-s", "--stream", action="store_true",
        help="let tests print as they go, with the rank in front; nothing is captured")  # fmt: skip
    add("--pdb", action="store_true",
        help="open the debugger where a single-process test fails; one job, no time limits")  # fmt: skip
    add("--pdb-rank", metavar="N", type=_count(0),
        help="give rank N the terminal, for breakpoint(); one job, no time limits")  # fmt: skip


def _reports(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reports")
    add = group.add_argument
    add("-v", "--verbose", action="count", default=0, help="a line for each test")
    add("-q", "--quiet", action="count", default=0, help="failures and the counts only")
    add("--color", choices=("auto", "always", "never"), default="auto",
        help="colours on the console (default: by NO_COLOR or FORCE_COLOR, else on a terminal)")  # fmt: skip
    add("--durations", metavar="N", type=_count(0), help="list the N slowest tests")
    add("--report-dir", metavar="DIR",
        help="where the run's files go (default: a new one in .harness/runs, which keeps 20)")  # fmt: skip
    add("--report", choices=("html", "conformance"), action="append", default=[],
        help="also write report.html, one self-contained page, or conformance.html, .md and .json: what the "
        "target can do, in matrices; repeatable")  # fmt: skip
    add("--trace", action="store_true", help="also write trace.json, for ui.perfetto.dev")
    add(
        "--timings",
        metavar="FILE",
        help="recorded times, for balance and order (default: suites/timings.json); shards of one run need "
        "the same",
    )


# Flags that a configuration file may turn on, so that a command line can turn them off.
FILE_FLAGS = ("slow", "isolate", "strict", "drop-in", "failfast", "trace")


def _configuration(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a project's own configuration (docs/configuration.rst)")
    add = group.add_argument
    add("--config", metavar="FILE",
        help="the configuration file (default: the nearest torch-harness.toml, or pyproject.toml with "
        f"[tool.torch-harness]; {EnvVar.CONFIG})")  # fmt: skip
    add("--no-config", action="store_true", help="read no configuration file")
    add("--profile", metavar="NAME", help=f"the profile of that file that holds ({EnvVar.PROFILE})")
    add("--show-config", action="store_true",
        help="print what holds here, with where each value comes from, and run nothing. Command line, "
        "environment, profile, file, default: the first that says something holds. "
        f"--no-{', --no-'.join(FILE_FLAGS)} turn off what a file turns on")  # fmt: skip
    for flag in FILE_FLAGS:
        add(f"--no-{flag}", dest=flag.replace("-", "_"), action="store_false", help=argparse.SUPPRESS)


def _count(least: int) -> _Number:
    return _Number(least, LARGEST_COUNT)


class _Number:
    """Parses whole numbers within bounds, as an argparse ``type``."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def __call__(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and self._least <= int(text) <= self._most):
            raise argparse.ArgumentTypeError(
                f"{text!r}: write a whole number from {self._least} to {self._most}"
            )
        return int(text)


_seed = _Number(0, LARGEST_SEED)


def _jobs(text: str) -> int:
    """The number of slots; 0 for ``auto``."""
    return 0 if text == "auto" else _Number(1, LARGEST_JOBS)(text)


def _parsed(parse_value: Callable[[str], T]) -> Callable[[str], T]:
    """An argparse ``type`` of a parser of settings, whose ValueError says what to write."""

    def parse_option(text: str) -> T:
        try:
            return parse_value(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None

    return parse_option
