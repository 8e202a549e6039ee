"""Mutates torch's own Python source at random, and tells which mutants no test of the suites notices.

    python tools/mutate.py --record --map /tmp/lines.json.gz
    python tools/mutate.py --map /tmp/lines.json.gz --sample 200 --seed 7 --report-dir /tmp/mutants
    python tools/mutate.py --map /tmp/lines.json.gz --mutant torch/distributed/utils.py:12.4-12.9:constant:0

``--record`` runs the tests once and notes which lines of the mutated modules each executes (``--tests`` and
``--files`` narrow both); a map that is there already is added to, so that it can be recorded in pieces. A
sample is then drawn from all mutants of these modules, of each module its share: each mutant is planted in
every process that has torch, without a change to the installed files, and the tests that execute its
line run until one fails, tables and the quickest first: in forks of a process that has imported torch, in
which the changed function gets the mutant's code, or, where that cannot be (``--fresh``: always), in a run of
their own. What no test executes counts as missed. A mutant that changes
no byte code, or that a reviewer has entered in ``suites/mutations.py`` with the reason, does not count. A
run that was interrupted goes on from its directory when the same command is given again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.errors import HarnessError, UsageError
from harness.outcomes import Status
from harness.runner import journal
from harness.runner.exit_codes import ExitCode
from tools import planted_run
from tools.mutation import equivalent, line_map, modules, page, planting, results, score, sites
from tools.mutation.forks import Forks
from tools.mutation.results import Result, Verdict
from tools.mutation.trial import ENVIRON, TrialFailed, Trials

EXIT_CODES = f"""exit codes:
  0  {score.WANTED_EXECUTED} % or more of mutants on executed lines were caught, {score.WANTED_ALL} % of all
  1  fewer were
  2  a wrong argument, or a map or results that cannot be used
  3  a run of the tests gave no result
  130  interrupted; the same command goes on from there"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns one of the exit codes that ``--help`` lists."""
    options = _parser().parse_args(argv)
    try:
        return _record(options) if options.record else _sample(options)
    except UsageError as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2
    except (TrialFailed, HarnessError) as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("mutate: interrupted; the same command goes on from there", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="mutate.py",
        description=description,
        epilog=f"{details}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    # fmt: off
    add("--map", metavar="FILE", required=True, type=Path, help="the map of lines, written by --record")
    add("--record", action="store_true", help="run the tests once and write the map")
    add("--tests", metavar="NAME", nargs="+", default=[],
        help="with --record: what to run, as run_tests.py takes it (default: the standard suites)")
    add("--files", metavar="TEXT", nargs="+", default=[], help="only files whose name contains TEXT")
    add("--sample", metavar="N", type=_positive, default=100, help="how many mutants to draw (default: 100)")
    add("--seed", metavar="S", type=int, help="what they are drawn from (default: another one each time)")
    add("--mutant", metavar="NAME", action="append", default=[], help="this one; repeatable")
    add("--executed", action="store_true", help="draw only from mutants on lines that some test executes")
    add("--shard", metavar="I/N", type=_shard, default=(1, 1), help="only each N-th mutant of the sample")
    add("--most", metavar="N", type=_positive,
        help="run at most N tests for a mutant, the quickest, beside all that compare with a table")
    add("--fresh", action="store_true", help="start a run for each mutant, instead of a fork")
    add("-j", "--jobs", metavar="N", default="auto",
        help="as run_tests.py's: for --record, and where a run is started for a mutant")
    add("--report-dir", metavar="DIR", type=Path, help="keep results there, and go on from them")
    add("--list", action="store_true", help="print the sample and run nothing")
    # fmt: on
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _shard(text: str) -> tuple[int, int]:
    first, _, count = text.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no shard such as 1/4")
    return int(first), int(count)


# -- recording


def _record(options: argparse.Namespace) -> int:
    files = modules.files(tuple(options.files))
    with tempfile.TemporaryDirectory(prefix="lines-") as temporary:
        lines, run, state = (Path(temporary, name) for name in ("lines", "run", "state"))
        lines.mkdir()
        arguments = [*options.tests, f"--jobs={options.jobs}"]
        done = planted_run.run(arguments, run, state, planting.environ_for_lines(lines, files))
        if done.code not in (ExitCode.OK, ExitCode.FAILED):
            raise TrialFailed(f"the run of the tests ended with exit code {done.code}: {done.words}")
        records = journal.read(run).records
        passed = {r.id: round(r.duration_s, 3) for r in records if r.status is Status.PASSED}
        found = line_map.collect(lines, files, passed, _release())
    if options.map.exists():
        found = line_map.merged(line_map.read(options.map), found)
    found.write(options.map)
    executed = sum(len(of) for of in found.lines.values())
    passing = f"{len(passed)} of {len(records)} tests passed"
    print(f"{passing} and execute {executed} lines of {len(found.lines)} files")
    for record in records:
        if not record.ok:  # such a test catches no mutant, since it fails without one
            print(f"left out: {record.id}: {record.reason}")
    return 0


def _release() -> str:
    from importlib.metadata import version

    return version("torch")


# -- trying


def _sample(options: argparse.Namespace) -> int:
    known = line_map.read(options.map)
    if known.release != _release():
        raise UsageError(f"{options.map} is of torch {known.release}, here is {_release()}: record it again")
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    sources = {file: (modules.root() / file).read_text(encoding="utf-8") for file in modules.files()}
    chosen = _chosen(options, seed, sources, known)
    if options.list:
        print(*(site.name for site in chosen), sep="\n")
        return 0
    setting = f"{len(chosen)} mutants, seed {seed}, torch {known.release}, {len(known.tests)} tests"
    print(setting, flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        directory = options.report_dir or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        runs = directory / "runs"
        with contextlib.nullcontext() if options.fresh else Forks(directory, ENVIRON) as forks:
            trials = Trials(known, runs, options.jobs, options.most, forks)
            found = list(_tried(chosen, sources, trials, directory))
        (directory / page.NAME).write_text(page.html_text(found, sources, setting), encoding="utf-8")
    for row in score.table(found):
        print("  ".join([row[0].ljust(60), *(cell.rjust(11) for cell in row[1:])]))
    reached = score.total(found)
    print(reached)
    return 0 if reached.enough else 1


def _chosen(
    options: argparse.Namespace, seed: int, sources: Mapping[str, str], known: line_map.LineMap
) -> list[sites.Site]:
    if options.mutant:
        return [sites.find(name, _source_of(name, sources)) for name in options.mutant]
    every = [
        site
        for file in modules.files(tuple(options.files))
        for site in sites.sites(file, sources[file])
        if not options.executed or known.executing(site.file, site.line)
    ]
    first, count = options.shard
    return _drawn(every, options.sample, random.Random(seed))[first - 1 :: count]


def _drawn(every: Sequence[sites.Site], count: int, source: random.Random) -> list[sites.Site]:
    """One mutant of each of ``count`` equal pieces of all, in random order.

    So each module has its share, and those that were tried first, where a run is ended early, are a random
    sample too.
    """
    count = min(count, len(every))
    bounds = [len(every) * number // count for number in range(count + 1)] if count else []
    drawn = [every[source.randrange(start, end)] for start, end in itertools.pairwise(bounds)]
    source.shuffle(drawn)
    return drawn


def _source_of(name: str, sources: Mapping[str, str]) -> str:
    file = name.partition(":")[0]
    if file not in sources:
        raise UsageError(f"{file} of mutant {name} is none of the mutated files")
    return sources[file]


def _tried(
    chosen: Sequence[sites.Site], sources: Mapping[str, str], trials: Trials, directory: Path
) -> Iterator[Result]:
    """The results of all mutants, those of an earlier run of this directory first looked up."""
    known = results.read(directory)
    began = time.monotonic()
    for number, site in enumerate(chosen, 1):
        result = known.get(site.name)
        if result is None:
            trials.directory.mkdir(exist_ok=True)
            result = _result(site, sources[site.file], trials)
            results.append(directory, result)
            shutil.rmtree(trials.directory)
            _print(number, len(chosen), site, sources[site.file], result, time.monotonic() - began)
        yield result


def _result(site: sites.Site, source: str, trials: Trials) -> Result:
    why = equivalent.reason(site, source)
    return trials.of(site) if why is None else Result(site.name, Verdict.EQUIVALENT, words=why)


def _print(number: int, count: int, site: sites.Site, source: str, result: Result, seconds: float) -> None:
    what = f"{len(result.tests)} tests" if result.verdict is Verdict.SURVIVED else " ".join(result.tests)
    said = f"[{number}/{count}, {seconds:.0f} s] {result.verdict.value}: {site.name} {what}".rstrip()
    print(said, flush=True)
    if result.verdict is not Verdict.CAUGHT:
        description = sites.describe(source, site.name)
        print(f"    {description.before}  =>  {description.after}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
