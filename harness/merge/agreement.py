"""``check``: whether all parts are of one run: the same tests, sources, versions and conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness import source_digests
from harness.errors import UsageError
from harness.merge.parts import Part
from harness.runner.command_line.earlier_run import CONDITIONS
from harness.settings import EnvVar

# Conditions under which a further attempt may differ, because they say how long it may take and not what it
# does.
PATIENCE = frozenset(
    {
        *("timeout", "timeout_multiplier", "isolate", EnvVar.TIMEOUT, EnvVar.UPSTREAM_TIMEOUT),
        *(EnvVar.TIMEOUT_MULTIPLIER, EnvVar.GRACE, EnvVar.EXIT_GRACE, EnvVar.SKIP_GRACE),
    }
)
# Options that say how many attempts are due, beside those that decide verdicts.
_REPETITION = ("repeat", "reruns", "until_fail", "flaky")
# Messages quote as much of a value.
_SHOWN = 60


def check(parts: Sequence[Part]) -> None:
    """UsageError, with one line that names both directories, where two parts are not of one run."""
    first = parts[0]
    for other in parts[1:]:
        reason = difference(first, other)
        if reason is not None:
            raise UsageError(f"{first.directory} and {other.directory} are not of one run: {reason}")


def difference(one: Part, other: Part) -> str | None:
    """The first thing by which two parts cannot be of one run; None where they can."""
    differences = (_shards, _selections, _cuts, _sources, _versions, _conditions)
    return next((reason for each in differences if (reason := each(one, other)) is not None), None)


def _shards(one: Part, other: Part) -> str | None:
    if _total(one) == _total(other):
        return None
    said = [f"shard {part.info.shard_text}" if part.info.shard else "not split" for part in (one, other)]
    return f"{said[0]}, and {said[1]}"


def _total(part: Part) -> int:
    return part.info.shard[1] if part.info.shard else 1


def _selections(one: Part, other: Part) -> str | None:
    for here, there in ((one, other), (other, one)):
        more = set(here.selection).difference(there.selection)
        if more:
            some = next(test_id for test_id in here.selection if test_id in more)
            return f"{here.directory} was to run {some}, {there.directory} was not"
    return None


def _cuts(one: Part, other: Part) -> str | None:
    """A test that two shards have: shards that were cut alike have none."""
    if one.number == other.number:
        return None
    both = set(one.info.tests).intersection(other.info.tests)
    return f"both run {min(both)}: they were cut by different --timings" if both else None


def _sources(one: Part, other: Part) -> str | None:
    names = source_digests.differing(one.info.sources, other.info.sources)
    return f"the source of {', '.join(names[:3])} differs" if names else None


def _versions(one: Part, other: Part) -> str | None:
    for what, ours, theirs in (
        ("torch", one.info.torch, other.info.torch),
        ("Python", one.info.python, other.info.python),
    ):
        if ours != theirs:
            return f"{what} {ours or 'is missing'}, and {what} {theirs or 'is missing'}"
    return None


def _conditions(one: Part, other: Part) -> str | None:
    if one.info.seed != other.info.seed:
        return f"seed {one.info.seed}, and seed {other.info.seed}"
    options = [_without_patience(part.info.options, (*CONDITIONS, *_REPETITION)) for part in (one, other)]
    for name in {**options[0], **options[1]}:
        if options[0].get(name) != options[1].get(name):
            return f"--{name.replace('_', '-')} {_pair(options, name)}"
    variables = [_without_patience(part.info.environ, part.info.environ) for part in (one, other)]
    for name in {**variables[0], **variables[1]}:
        if variables[0].get(name) != variables[1].get(name):
            return f"{name} {_pair(variables, name)}"
    return None


def _without_patience(values: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values and name not in PATIENCE}


def _pair(values: Sequence[Mapping[str, Any]], name: str) -> str:
    said = [str(each[name])[:_SHOWN] if name in each else "not given" for each in values]
    return f"is {said[0]}, and {said[1]}"
