"""What the overrides of a configuration file mean for the tests of a run: units, reruns and quarantine."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from harness.configuration.configuration import Configuration
from harness.configuration.override import Override, Quarantine, Reruns, Rule, rule_of
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.text import count
from harness.runner.scheduling.unit import Unit
from harness.runner.selection.named_tests import covers
from harness.settings import EnvVar

_NOTHING = Rule()


def rules_of(
    units: Iterable[Unit], configuration: Configuration, *, chosen: Collection[str], own: Collection[str]
) -> dict[str, Rule]:
    """The rule of each test that has one, by its id.

    ``chosen`` are options that the command line gives a value, and ``own`` variables that the environment
    has: they go before what the file says of reruns, the rank mode and variables.
    """
    everywhere = configuration.values.get("reruns")
    rules = {}
    for unit in units:
        rule = rule_of(o for o in configuration.overrides if _concerns(o, _name(unit)))
        if rule.reruns is None and everywhere is not None:
            rule = replace(rule, reruns=everywhere.value)
        if "reruns" in chosen or "until_fail" in chosen:
            rule = replace(rule, reruns=None)
        if "ranks" in chosen or EnvVar.RANKS in own:
            rule = replace(rule, ranks=None)
        rule = replace(rule, environment={n: text for n, text in rule.environment.items() if n not in own})
        if rule != _NOTHING:
            rules[unit.id] = rule
    return rules


def _concerns(override: Override, name: str) -> bool:
    return any(covers(pattern, name) for pattern in override.tests)


def applied(unit: Unit, rule: Rule | None) -> Unit:
    """The unit with what its rule says of its deadline, of the machine and of its process."""
    if rule is None:
        return unit
    demand = unit.demand
    demand = replace(
        demand,
        cpu_slots=demand.cpu_slots if rule.slots is None else rule.slots,
        exclusive=demand.exclusive if rule.exclusive is None else rule.exclusive,
        group=rule.group or "",
    )
    environ = dict(rule.environment)
    if rule.ranks is not None:
        environ[EnvVar.RANKS] = rule.ranks
    if rule.timeout_s is not None:
        environ[EnvVar.TEST_TIMEOUT] = repr(rule.timeout_s)
    timeout_s = unit.timeout_s if rule.timeout_s is None else rule.timeout_s
    return replace(unit, demand=demand, timeout_s=timeout_s, environ=tuple(sorted(environ.items())))


def reruns_of(rules: Mapping[str, Rule]) -> dict[str, Reruns]:
    """The reruns of the tests that have their own, by id."""
    return {test_id: rule.reruns for test_id, rule in rules.items() if rule.reruns is not None}


def judged(record: TestRecord, rules: Mapping[str, Rule], today: datetime.date) -> TestRecord:
    """The record of a test; a failure in quarantine as an expected one, which says until when, and why.

    ``extra["quarantine"]`` then has ``until``, ``why`` and the test's own ``status``.
    """
    rule = rules.get(record.id, _NOTHING)
    quarantine = rule.quarantine
    if quarantine is None or not quarantine.holds(today) or not record.status.bad:
        return record
    known = {
        "until": quarantine.until.isoformat(),
        "why": quarantine.reason,
        "status": record.status.value,
    }
    failure = f"{record.status.value}: {record.reason}"
    reason = f"in quarantine until {quarantine.until}: {quarantine.reason} ({failure})"
    return replace(record, status=Status.XFAILED, reason=reason, extra={**record.extra, "quarantine": known})


def notices(
    configuration: Configuration,
    rules: Mapping[str, Rule],
    units: Iterable[Unit],
    today: datetime.date,
    *,
    all_run: bool,
) -> list[str]:
    """Lines about quarantines that are over, and where ``all_run``, about overrides of no test."""
    over: dict[Quarantine, list[str]] = {}
    for test_id, rule in rules.items():
        if rule.quarantine is not None and not rule.quarantine.holds(today):
            over.setdefault(rule.quarantine, []).append(test_id)
    lines = [_over_text(quarantine, ids) for quarantine, ids in over.items()]
    names = [_name(unit) for unit in units] if all_run else []
    for override in configuration.overrides if all_run else ():
        if not any(_concerns(override, name) for name in names):
            lines.append(f"{override.origin}: the override is about no test: {', '.join(override.tests)}")
    return lines


def _over_text(quarantine: Quarantine, ids: Sequence[str]) -> str:
    tests = f"{count(len(ids), 'test')}: {ids[0]}{', ...' if len(ids) > 1 else ''}"
    since = quarantine.until + datetime.timedelta(days=1)
    return f"{quarantine.origin}: the quarantine is over since {since}, and failures count, of {tests}"


def _name(unit: Unit) -> str:
    return unit.module if unit.stands_in else unit.id
