"""Updates ``suites/timings.json``, by which shards are balanced, from the ``results.jsonl`` of a run.

    python tools/update_timings.py test-reports/*/results.jsonl

All files of one call count as one run, such as its shards or its repeats. If several of them measured a test,
the median counts. The new time in the file is the mean of the old one and of the run's. Only tests that
passed, were skipped or failed as expected count, because the duration of a failure says nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import ProtocolError, UsageError
from harness.record import from_json
from harness.runner.scheduling import timings as timings_file
from harness.runner.scheduling.timings import Timings

RESULTS = "results.jsonl"
EXIT_CODES = """exit codes:
  0  the file is up to date
  1  the results hold no time that counts; the file was left alone
  2  a wrong argument, or a file that cannot be read or written; the file was left alone"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    arguments = _parser().parse_args(argv)
    try:
        return update(arguments.results, arguments.timings, prune=arguments.prune, dry_run=arguments.dry_run)
    except UsageError as error:
        print(f"update_timings: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="update_timings.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "results",
        nargs="+",
        type=Path,
        help=f"{RESULTS} or journal of a run, or a directory to search for {RESULTS}",
    )
    parser.add_argument(
        "--timings",
        type=Path,
        default=timings_file.default_path(),
        metavar="FILE",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--prune", action="store_true", help="forget what the results do not mention; for a run of everything"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and write nothing")
    return parser


def update(results: Iterable[Path], path: Path, *, prune: bool = False, dry_run: bool = False) -> int:
    """Merges the results into the timings file at ``path`` and returns the exit code.

    Raises UsageError if a file cannot be read or written.
    """
    lines = [line for file in _files(results) for line in _lines(file)]
    run = timings_file.pooled(times for _, times in lines)
    if not run.tests:
        print("update_timings: no test in these results has a time that counts", file=sys.stderr)
        return 1
    old, warning = timings_file.load(path)
    if warning is not None:
        print(f"update_timings: {warning}; writing it anew", file=sys.stderr)
    new = timings_file.merge(old, [run])
    if prune:
        new = timings_file.pruned(new, (test_id for test_id, _ in lines))
    if not dry_run:
        try:
            timings_file.save(new, path)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
    print(_summary(old, new, run))
    return 0


def _summary(old: Timings, new: Timings, run: Timings) -> str:
    added = len(new.tests.keys() - old.tests.keys())
    gone = len(old.tests.keys() - new.tests.keys())
    total_s = sum(new.tests.values()) + sum(new.fixtures.values())
    return (
        f"{len(run.tests)} tests measured, {added} new, {gone} forgotten; "
        f"{len(new.tests)} in the file, {total_s:.1f} s in all"
    )


def _files(results: Iterable[Path]) -> Iterator[Path]:
    for path in results:
        if path.is_dir():
            found = sorted(path.rglob(RESULTS))
            if not found:
                raise UsageError(f"{path}: no {RESULTS} in this directory")
            yield from found
        else:
            yield path


def _lines(file: Path) -> Iterator[tuple[str, Timings]]:
    """Yields the test id and the times of each line; skips a cut-off last line, which a killed run leaves."""
    try:
        *lines, last = file.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        try:
            yield from _times(line)
        except (TypeError, ValueError, ProtocolError) as error:
            raise UsageError(f"{file}:{number}: not a line of results: {error}") from None
    with contextlib.suppress(TypeError, ValueError, ProtocolError):
        yield from _times(last)


def _times(line: str) -> Iterator[tuple[str, Timings]]:
    """Yields the id of the line's test with its times; the times are empty if the test did not end well.

    Times are the test's seconds and those of the fixtures that it set up. Yields nothing for a line that is
    not of a test. Raises TypeError, ValueError or ProtocolError for a line that is not one of results.
    """
    try:
        value = json.loads(line) if line.strip() else {}
    except RecursionError:
        raise ValueError("nested too deep for a line of results") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    if value.get("kind") != "test":
        return
    record = from_json(value)
    yield record.id, timings_file.of_record(record)


if __name__ == "__main__":
    sys.exit(main())
