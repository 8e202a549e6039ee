"""Runs the self-tests and the suites on each Python of this machine with each supported release of torch.

    python tools/matrix/run.py --list                what there is, and what was run
    python tools/matrix/run.py                       every pair, whole: half an hour each on two cores
    python tools/matrix/run.py --python 3.13 --torch 2.13 --tests selftest.ranks c10d
    python tools/matrix/run.py --rst                 the table of what was run so far
    python tools/matrix/run.py --readme              writes that table into README.rst

Interpreters are python3.10 to python3.14 on PATH and those of pyenv; the newest patch of each counts. The
environments, what was downloaded for them and the runs' journals are kept in --cache and used again. A pair
that cannot be had is a row of the table with the reason. Indexes, folders of wheels and the like are set by
uv's own variables: UV_TORCH_BACKEND=cpu takes torch's small builds for the CPU from download.pytorch.org.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.errors import UsageError
from harness.runner.exit_codes import ExitCode
from tools.matrix import environments, interpreters, runs
from tools.matrix.environments import RELEASES, Environment, NotMade, Pair
from tools.matrix.interpreters import MINORS, Interpreter
from tools.simple_table import as_rst, placed

TREE = Path(__file__).resolve().parents[2]
CACHE = TREE / ".harness" / "matrix"
RUNS = "runs"
TABLE = "matrix"
T = TypeVar("T")

EXIT_CODES = """exit codes:
  0    every environment was made, and every test that was run passed or was skipped
  1    a test failed
  2    a wrong argument, or README.rst has no place for the table
  3    an environment could not be made, or a run came to no end
  130  interrupted; what was run is kept"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    try:
        if options.table or options.readme:
            return _show(options.cache, readme=options.readme)
        versions = [name for name in options.python if os.sep not in name]
        named = [_named(Path(name)) for name in options.python if os.sep in name]
        pairs = chosen(_found(), named, versions, options.torch)
        if options.list:
            return _list(pairs, options.cache, whole=not options.python)
        return _run_all(pairs, options)
    except UsageError as error:
        print(f"matrix: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="run.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--python",
        action="append",
        default=[],
        metavar="VERSION|PATH",
        help="only this minor version (3.13), or this interpreter wherever it is; repeatable",
    )
    add(
        "--torch", action="append", default=[], metavar="RELEASE", help="only this release (2.13); repeatable"
    )
    add(
        "--tests",
        nargs="+",
        default=[],
        metavar="NAME",
        help="only these, by run_tests.py's names; added to earlier runs",
    )
    add("--keep-going", action="store_true", help="go on with the next pair where one failed")
    add("--cache", type=Path, default=CACHE, metavar="DIR", help="default: .harness/matrix; 20 GB for all")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--list", action="store_true", help="print the pairs and what failed in each; run nothing"
    )
    instead.add_argument(
        "--rst", dest="table", action="store_true", help="print the table of all that was run; run nothing"
    )
    instead.add_argument("--readme", action="store_true", help="write it into README.rst; run nothing")
    return parser


# -- which pairs


def chosen(
    found: Sequence[Interpreter],
    named: Sequence[Interpreter],
    versions: Sequence[str],
    releases: Sequence[str],
) -> list[Pair]:
    """The pairs of the interpreters ``named`` by path, and of those found here, with the releases of torch.

    Versions and releases cut them down where there are any. What was found counts where none is named, or
    where a version asks for it. UsageError for a version that there is not.
    """
    some = _those("--python", versions, {one.version: one for one in found})
    pythons = [*named, *(some if versions or not named else ())]
    torches = _those("--torch", releases, {release: release for release in RELEASES})
    return [Pair(python, release) for python in pythons for release in torches]


def _those(option: str, names: Sequence[str], known: Mapping[str, T]) -> list[T]:
    """The values whose versions are named in full or in part ("3.13"); all of them where there is no name."""
    for name in names:
        if not any(_is(version, name) for version in known):
            raise UsageError(f"{option} {name}: there is {', '.join(known) or 'none'} on this machine")
    return [one for version, one in known.items() if not names or any(_is(version, name) for name in names)]


def _is(version: str, name: str) -> bool:
    return f"{version}.".startswith(f"{name}.")


def _found() -> list[Interpreter]:
    asked = map(interpreters.ask, interpreters.candidates(os.environ, Path.home()))
    return list(interpreters.newest(one for one in asked if one is not None))


def _named(path: Path) -> Interpreter:
    one = interpreters.ask(path.absolute())
    if one is None:
        raise UsageError(f"{path} is no interpreter of CPython with the global interpreter lock")
    return one


# -- running


def _run_all(pairs: Sequence[Pair], options: argparse.Namespace) -> ExitCode:
    worst = ExitCode.OK
    for pair in pairs:
        code = _run_one(pair, options.tests, options.cache)
        worst = max(worst, code)
        if code is ExitCode.INTERRUPTED or (code is not ExitCode.OK and not options.keep_going):
            break
    return worst


def _run_one(pair: Pair, tests: Sequence[str], cache: Path) -> ExitCode:
    """Makes a pair's environment and runs the named tests in it, or everything in place of earlier runs."""
    print(f"== {pair}", flush=True)
    pinned = (TREE / "requirements.txt").read_text(encoding="utf-8")
    try:
        environment = environments.make(pair, pinned, cache)
    except NotMade as error:
        print(f"== {pair}: {error}", flush=True)
        runs.note_not_made(cache / RUNS, pair.name, str(error))
        return ExitCode.BROKEN
    parts = [tests] if tests else [[runs.SELFTEST], []]
    if not tests:
        runs.forget(cache / RUNS, pair.name)
    return max(_run_tests(environment, names, runs.new_run(cache / RUNS, pair.name)) for names in parts)


def _run_tests(environment: Environment, names: Sequence[str], directory: Path) -> ExitCode:
    command = [str(environment.python), "run_tests.py", "--report-dir", str(directory), *names]
    found = runs.revision(TREE)
    try:
        code = ran(command, environment.variables(os.environ))
    finally:
        runs.note_revision(directory, found)
    known = {each.value for each in ExitCode}
    return ExitCode(code) if code in known else ExitCode.BROKEN


def ran(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Runs a command to its end and returns its exit code; an interrupt ends it by SIGTERM, and is raised."""
    with subprocess.Popen(command, cwd=TREE, env=variables) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.terminate()  # the run writes what it has; a second interrupt does not wait for that
            process.wait()
            raise


# -- showing


def _list(pairs: Sequence[Pair], cache: Path, *, whole: bool) -> ExitCode:
    """Prints each pair with what is known of it; of the ``whole`` matrix also what this machine lacks."""
    known = {(one.python, one.torch): one for one in runs.tried(cache / RUNS)}
    for pair in pairs:
        one = known.get((pair.interpreter.version, pair.release))
        print(f"{pair} ({pair.interpreter.path}): {runs.described(one)}")
        for record in runs.failed(one) if one else ():
            print(f"    {record.status.value}: {record.id}")
    for minor in MINORS:
        if whole and all(pair.interpreter.minor != minor for pair in pairs):
            print(f"Python {minor}: not on this machine; --python PATH names one that is elsewhere")
    return ExitCode.OK


def _show(cache: Path, *, readme: bool) -> ExitCode:
    text = as_rst(runs.table(runs.tried(cache / RUNS)))
    if not readme:
        print(text)
        return ExitCode.OK
    path = TREE / "README.rst"
    try:
        path.write_text(placed(path.read_text(encoding="utf-8"), TABLE, text), encoding="utf-8")
    except ValueError as error:
        raise UsageError(f"{path.name}: {error}") from None
    return ExitCode.OK


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a CI system sends
    sys.exit(main())
