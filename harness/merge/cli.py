"""``main``, the command ``torch-harness merge``: one run of the directories of its shards."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.impact import impact_map
from harness.impact.impact_map import ImpactMap
from harness.merge import agreement
from harness.merge.conformance import conformance_of
from harness.merge.merged import Merged, absent_text, merged
from harness.merge.parts import Part, read_parts
from harness.merge.write import write
from harness.report.console_lines import closing_lines
from harness.report.summary import Summary, summarise
from harness.runner import exit_codes, run_directory
from harness.runner.exit_codes import ExitCode

EPILOG = """\
exit codes:
  0  every test of every shard has a result, and none failed
  1  a test failed (or was flaky, in runs with --flaky=fail)
  2  wrong command line, a directory without a run, or directories not of one run; nothing is written
  3  a shard or a test is absent, and none failed; what is absent is named
  5  nothing ran"""
# Of absent tests, so many are named on one line; results.jsonl has them all.
SHOWN = 10


def main(words: Sequence[str], prog: str) -> int:
    """Does what ``words`` say and returns the exit code; ``prog`` is the command before them."""
    options = _parser(prog).parse_args(words)
    try:
        parts = read_parts(options.directories)
        agreement.check(parts)
        whole = merged(parts)
        summary = summary_of(whole)
        directory = Path(options.report_dir)
        if directory.resolve() in {part.directory.resolve() for part in parts}:
            raise UsageError(f"--report-dir {directory} is one of the runs: name another directory")
        write(whole, summary, directory, conformance_of(parts, whole.info, summary), impact_of(parts))
    except UsageError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return ExitCode.USAGE
    run_directory.state(os.environ, Path.cwd()).remember(directory)
    _show(whole, summary)
    return summary.exit_code


def impact_of(parts: Sequence[Part]) -> ImpactMap | None:
    """The map of which files the tests of all parts execute; None where no part has one."""
    files = [file for part in parts if (file := part.directory / impact_map.NAME).is_file()]
    return impact_map.joined(map(impact_map.read, files)) if files else None


def summary_of(whole: Merged) -> Summary:
    """The counts of the whole run, and its exit code."""

    def with_code(code: int) -> Summary:
        return summarise(
            whole.records,
            exit_code=code,
            duration_s=whole.duration_s,
            selected=whole.info.tests,
            command=whole.info.command,
            names=whole.info.names,
            messages=[*whole.messages, *(absent_text(absent, SHOWN) for absent in whole.absent)],
        )

    summary = with_code(0)
    code = exit_codes.decide(
        ran=len(summary.tests),
        failed=summary.failed,
        flaky=len(summary.flaky),
        flaky_fails=whole.flaky_fails,
        interrupted=False,
        broken=bool(whole.absent),
    )
    return with_code(code)


def _show(whole: Merged, summary: Summary) -> None:
    for line in closing_lines(summary, whole.info, durations=0, verbosity=0):
        print(line.text)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Make one run of the directories that its shards have written "
        "(run_tests.py --report-dir), in any order: one journal, results.jsonl, junit.xml, report.html, "
        "trace.json, timings.json and last-failed.txt, and conformance.json, .html and .md, and "
        "impact.json.gz, where they have those. Where "
        "a shard was run several times, the newest result of each test counts; one that passed after it had "
        "failed is flaky. Afterwards --last-failed and --resume=OUT go on from the whole.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "directories", metavar="DIR", nargs="+", type=Path, help="the directory of a shard's run"
    )
    parser.add_argument("--report-dir", metavar="OUT", required=True, help="where the files of the whole go")
    return parser
