"""``Override``: what a configuration file says of tests by pattern, and ``Rule``: what holds for one test.

For each part of a rule the first override in the file that matches the test and has that part decides; those
of the chosen profile come before the others.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.configuration.keys import check_names, check_setting, shown
from harness.configuration.similar import perhaps
from harness.errors import UsageError
from harness.setting_values import LONGEST_S
from harness.settings import RANK_MODES, EnvVar

FIXED, EXPONENTIAL = "fixed", "exponential"
# More attempts at one test, or processors for it, are a typing error.
MOST = 4096
_PREFIX = "HARNESS_"


@dataclass(frozen=True, slots=True)
class Reruns:
    """The number of further attempts at a test that failed, and the seconds before each of them.

    With the backoff "exponential" each wait is twice the one before, up to ``max_delay_s``.
    """

    count: int
    delay_s: float = 0.0
    backoff: str = FIXED
    max_delay_s: float = LONGEST_S

    def wait_s(self, attempt: int) -> float:
        """The seconds to wait after this attempt, counted from 1."""
        factor = 2.0 ** min(attempt - 1, 64) if self.backoff == EXPONENTIAL else 1.0
        return min(self.delay_s * factor, self.max_delay_s)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A test that is known to fail now and then: its failures do not fail a run up to the day ``until``."""

    until: datetime.date
    reason: str
    origin: str = ""

    def holds(self, today: datetime.date) -> bool:
        """Whether it has not ended; the last day counts."""
        return today <= self.until


@dataclass(frozen=True, slots=True)
class Rule:
    """What overrides say of one test; None, False and empty for what they do not say.

    ``timeout_s`` replaces the run's deadline and the test's own, ``ranks`` is the rank mode, and
    ``environment`` has variables for the process that runs the test.
    """

    timeout_s: float | None = None
    reruns: Reruns | None = None
    slots: int | None = None
    exclusive: bool | None = None
    ranks: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    quarantine: Quarantine | None = None


_PARTS = tuple(each.name for each in dataclasses.fields(Rule))


@dataclass(frozen=True, slots=True)
class Override:
    """The shell patterns of the tests that an override is about, what it says, and where it stands."""

    tests: tuple[str, ...]
    rule: Rule
    origin: str = ""


def rule_of(overrides: Iterable[Override]) -> Rule:
    """The rule of a test about which these overrides are: each part from the first of them that has it.

    Variables of several overrides come together, those of the first one on top.
    """
    found = Rule()
    for override in overrides:
        found = _below(found, override.rule)
    return found


def _below(first: Rule, second: Rule) -> Rule:
    missing = {name: getattr(second, name) for name in _PARTS if getattr(first, name) is None}
    return replace(first, **missing, environment={**second.environment, **first.environment})


# -- reading


def read(table: Mapping[str, Any], groups: Collection[str], where: Callable[..., str]) -> Override:
    """The override in a table of the file; ``where`` takes the path of a key and returns its place.

    UsageError, which names the place, for a key or a value that cannot be used.
    """
    check_names(table, tuple(_READERS), where)
    if "tests" not in table:
        raise UsageError(f'{where()}: an override needs tests = "PATTERN": {_TESTS}')
    if len(table) == 1:
        raise UsageError(f"{where()}: this override says nothing of its tests: {', '.join(_READERS)}")
    said = {name: _READERS[name](value, functools.partial(where, name)) for name, value in table.items()}
    group = said.get("group")
    if group is not None and group not in groups:
        what = perhaps(group, groups, "give it one, with its limit")
        raise UsageError(f"{where('group')}: there is no [groups.{group}]{what}")
    tests = said.pop("tests")
    timeout_s, quarantine = said.pop("timeout", None), said.pop("quarantine", None)
    if quarantine is not None:
        quarantine = replace(quarantine, origin=where("quarantine"))
    return Override(tests, Rule(timeout_s=timeout_s, quarantine=quarantine, **said), where())


_TESTS = "a shell pattern of ids, modules or classes, as for --include, or a list of them"
_Place = Callable[[], str]


def _refuse(place: _Place, name: str, value: object, instead: str) -> UsageError:
    return UsageError(f"{place()}: {name} = {shown(value)}: write {instead}")


def _tests(value: object, place: _Place) -> tuple[str, ...]:
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list) or not several or not all(isinstance(e, str) and e for e in several):
        raise _refuse(place, "tests", value, _TESTS)
    return tuple(several)


def _timeout(value: object, place: _Place) -> float:
    if not _is_number(value):
        raise _refuse(place, "timeout", value, "a number of seconds")
    check_setting("timeout", EnvVar.TIMEOUT, repr(value), place())
    return float(value)  # type: ignore[arg-type]  # a number


def reruns_of(value: object, place: _Place) -> Reruns:
    """The reruns that a number or a table of the file asks for; UsageError for another value."""
    if not isinstance(value, dict):
        return Reruns(_count("reruns", value, place, least=0))
    check_names(value, ("count", "delay", "backoff", "max-delay"), lambda _: place())
    if "count" not in value:
        raise UsageError(f"{place()}: reruns needs its count: reruns = {{ count = 2, delay = 1.0 }}")
    seconds = {name: value[name] for name in ("delay", "max-delay") if name in value}
    for name, number in seconds.items():
        if not _is_number(number) or not 0 <= number <= LONGEST_S:
            raise _refuse(place, f"reruns.{name}", number, "a number of seconds")
    backoff = value.get("backoff", FIXED)
    if backoff not in (FIXED, EXPONENTIAL):
        raise _refuse(place, "reruns.backoff", backoff, f'"{FIXED}" or "{EXPONENTIAL}"')
    return Reruns(
        _count("reruns.count", value["count"], place, least=0),
        float(seconds.get("delay", 0.0)),
        backoff,
        float(seconds.get("max-delay", LONGEST_S)),
    )


def _count(name: str, value: object, place: _Place, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise _refuse(place, name, value, f"a whole number from {least} to {MOST}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _exclusive(value: object, place: _Place) -> bool:
    if not isinstance(value, bool):
        raise _refuse(place, "exclusive", value, "true or false")
    return value


def _ranks(value: object, place: _Place) -> str:
    if value not in RANK_MODES:
        raise _refuse(place, "ranks", value, f"one of {', '.join(RANK_MODES)}")
    return str(value)


def environment_of(value: object, place: _Place) -> dict[str, str]:
    """The variables in a table of the file; UsageError for one of the harness, which has a key of its own."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise _refuse(place, "environment", value, 'a table of texts, such as { NCCL_DEBUG = "WARN" }')
    for name, text in value.items():
        if name.startswith(_PREFIX):
            raise UsageError(f"{place()}: {name} is a setting of the harness: write its key in place of it")
        if not name or "=" in name or "\0" in name + text:
            raise UsageError(f"{place()}: {name!r} = {text!r} is no environment variable")
    return dict(value)


def _group(value: object, place: _Place) -> str:
    if not isinstance(value, str):
        raise _refuse(place, "group", value, "the name of one of the groups")
    return value


def _quarantine(value: object, place: _Place) -> Quarantine:
    form = '{ until = 2026-12-31, reason = "..." }'
    if not isinstance(value, dict):
        raise _refuse(place, "quarantine", value, form)
    check_names(value, ("until", "reason"), lambda _: place())
    until, reason = value.get("until"), value.get("reason")
    if isinstance(until, datetime.datetime) or not isinstance(until, datetime.date):
        raise UsageError(f"{place()}: a quarantine ends: until = 2026-12-31, a date; write {form}")
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError(f"{place()}: a quarantine has a reason, for whoever reads the report; write {form}")
    return Quarantine(until, " ".join(reason.split()))


_READERS: Mapping[str, Callable[[Any, _Place], Any]] = {
    "tests": _tests,
    "timeout": _timeout,
    "reruns": reruns_of,
    "slots": lambda value, place: _count("slots", value, place, least=1),
    "exclusive": _exclusive,
    "ranks": _ranks,
    "environment": environment_of,
    "group": _group,
    "quarantine": _quarantine,
}
