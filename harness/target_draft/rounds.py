"""``tried``: starts two ranks again and again until every try has ended, also if one kills or hangs them."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness import environment
from harness.errors import LaunchError, UsageError
from harness.outcomes import RankOutcome, Status
from harness.protocol import Launch, ModuleRef
from harness.rank_merging import DEFAULT_RULES
from harness.ranks.job import Job, JobResult
from harness.ranks.processes.mode import FreshRanks
from harness.settings import EnvVar
from harness.system.intra_op_threads import of_rank
from harness.target_draft.tries import RIGHT, Finding, Try

RANKS = 2
# So many first tries that fail in the same way say that all will.
SAME_FAILURES = 3
CRASHED, HUNG = "crashed", "hung"
_RANK_MODULE = "harness.target_draft.rank"


@dataclass(frozen=True, slots=True)
class Plug:
    """The backend and device that are tried; ``module`` is imported first, and registers them ("": none)."""

    backend: str
    device_type: str
    module: str = ""


def tried(
    tries: Sequence[Try],
    plug: Plug,
    *,
    limit_s: float,
    good: Sequence[Try] = (),
    say: Callable[[str], None] = lambda line: None,
) -> dict[Try, Finding]:
    """What comes of each try; ``good`` are some that are known to work.

    A try may take ``limit_s``; one that crashes or hangs is said at once. UsageError, in one line, where the
    two ranks cannot make a group, or the first tries all end in the same way, which is not the right one.
    """
    found: dict[Try, Finding] = {}
    while len(found) < len(tries):
        rest = tries[len(found) :]
        ends = _round(rest, plug, limit_s, good)
        for each, finding in zip(rest, ends, strict=False):
            found[each] = finding
            if finding.end in (CRASHED, HUNG):
                say(f"{each}: {finding.end} ({finding.said})" if finding.said else f"{each}: {finding.end}")
        if not good:
            refuse_if_nothing_works(list(found.values()), plug)
    return found


def refuse_if_nothing_works(ends: Sequence[Finding], plug: Plug) -> None:
    """UsageError where the first tries have one end, and not the right one: nothing will work."""
    first = set(ends[:SAME_FAILURES])
    if len(ends) >= SAME_FAILURES and len(first) == 1 and not ends[0].right:
        said = f": {ends[0].said}" if ends[0].said else ""
        raise UsageError(
            f"{RANKS} ranks can do nothing with the backend {plug.backend!r} on {plug.device_type}: the "
            f"first {SAME_FAILURES} tries are {ends[0].end}{said}. A backend that takes one rank a device "
            f"needs {RANKS} devices"
        )


def _round(tries: Sequence[Try], plug: Plug, limit_s: float, good: Sequence[Try]) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="harness-draft-") as directory:
        result = _ranks(tries, plug, limit_s, good, directory)
        lines = [_lines(directory, rank) for rank in range(RANKS)]
    ends = findings(lines, result.outcomes)
    if not ends:
        raise UsageError(f"no group of {RANKS} ranks with the backend {plug.backend!r}: {_reason(result)}")
    return ends


def _ranks(
    tries: Sequence[Try], plug: Plug, limit_s: float, good: Sequence[Try], directory: str
) -> JobResult:
    environ = dict(environment.environment())
    environ[EnvVar.PLUGIN] = plug.module
    settings = replace(environment.settings(), timeout_s=math.inf, rank_output="capture")
    request = Launch(
        module=ModuleRef(_RANK_MODULE, None),
        qualname="TriesInRank",
        method="tries",
        world_size=RANKS,
        file_name="",
        environ=environ,
        cwd=os.getcwd(),
        sys_path=_path(),
        argv=["torch-harness"],
        threads=of_rank(environ, RANKS),
        kwargs={
            "backend": plug.backend,
            "device_type": plug.device_type,
            "directory": directory,
            "tries": [each.to_json() for each in tries],
            "good": [each.to_json() for each in good],
            "limit_s": limit_s,
        },
    )
    try:
        ranks = FreshRanks(Job(None, f"target of {plug.backend}", request, settings, math.inf))
    except LaunchError as error:  # as where the module cannot be imported
        last = str(error).strip().splitlines()[-1]
        raise UsageError(last.removeprefix("harness.errors.UsageError: ")) from error
    try:
        return ranks.join(DEFAULT_RULES)
    finally:
        ranks.close()


def _lines(directory: str, rank: int) -> list[list[object]]:
    path = os.path.join(directory, str(rank))
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def findings(lines: Sequence[Sequence[Sequence[object]]], outcomes: Sequence[RankOutcome]) -> list[Finding]:
    """What a round has found, try by try: of both ranks' ends that which is not right.

    ``lines`` are those of each rank's file. The last try may have no end on a rank: then that rank has
    crashed in it, or hung, or waited for one that had.
    """
    begun = max((int(str(line[0])) + 1 for of_rank in lines for line in of_rank), default=0)
    return [_finding(number, lines, outcomes) for number in range(begun)]


def _finding(
    number: int, lines: Sequence[Sequence[Sequence[object]]], outcomes: Sequence[RankOutcome]
) -> Finding:
    ends = [
        Finding(str(line[1]), str(line[2]))
        for of_rank in lines
        for line in of_rank
        if line[0] == number and len(line) == 3
    ]
    if len(ends) < RANKS:
        died = [each for each in outcomes if each.status is Status.CRASHED and not _hung(each)]
        ends += [Finding(CRASHED, f"rank {each.rank}: {exit_words(each)}") for each in died[:1]]
        # What the other rank says of a try is because this one has died; that it hangs may be because of it.
        bad = [each for each in reversed(ends) if not each.right]
        return bad[0] if bad else Finding(HUNG)
    return next((each for each in ends if not each.right), Finding(RIGHT))


def _hung(outcome: RankOutcome) -> bool:
    """Whether the rank ended itself because its time was up."""
    return "Timeout (" in outcome.output


def exit_words(outcome: RankOutcome) -> str:
    """How a rank's process ended, in words."""
    code = outcome.exit_code
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _reason(result: JobResult) -> str:
    for outcome in result.outcomes:
        if outcome.error is not None:
            return outcome.error.headline
    return "; ".join(f"rank {each.rank}: {exit_words(each)}" for each in result.outcomes)


def _path() -> list[str]:
    """Where modules are found: in the working directory too, which a command's path lacks."""
    here = os.getcwd()
    return sys.path if here in sys.path or "" in sys.path else [here, *sys.path]
