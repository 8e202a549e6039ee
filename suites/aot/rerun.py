"""Tests run again through another front end: a class made from those that have them, and its exceptions."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.graphs import VerificationResult
from suites.aot.base import AotTestCase
from suites.aot.front_ends import ThroughDynamo
from suites.aot.known import Known, all_names, expect, is_bare

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def rerun(
    name: str,
    module: str,
    bases: Sequence[type[AotTestCase]],
    make: Callable[..., ThroughDynamo],
    *,
    stay: Mapping[str, str],
    breaks: Mapping[str, str],
    known: Iterable[Known] = (),
) -> type[AotTestCase]:
    """The class ``name`` of ``module`` with all tests of ``bases``, each through a new ``make(breaks=...)``.

    ``stay``: tests that are not run again, with the reason. ``breaks``: those whose functions break into
    several graphs, with the reason. ``known``: those that fail. A test that is run again has to compile
    through the front end, or it would be the same test twice.

    UsageError where two bases have a test of one name, a table names a test that none has, or a test is
    expected to fail in whatever way.
    """
    owners = _owners(bases)
    known = tuple(known)
    unknown = (all_names(known) | stay.keys() | breaks.keys()) - owners.keys()
    if unknown:
        raise UsageError(f"{name}: there is no test {sorted(unknown)[0]} to make an exception of")
    bare = [test for test, owner in owners.items() if is_bare(getattr(owner, test))]
    if bare:
        raise UsageError(
            f"{name}: {bare[0]} has a bare unittest.expectedFailure, which any failure would satisfy: "
            "decorate it with expect(Known(...)) of suites.aot.known, which says how it fails and why"
        )
    tests: dict[str, Any] = dict.fromkeys(stay)  # unittest does not see what is None
    for test, owner in owners.items():
        if test not in stay:
            tests[test] = _through(getattr(owner, test), [one for one in known if one.concerns(test)])
    return type(
        name,
        (_Rerun, *bases),
        {"__module__": module, "make": staticmethod(make), "breaks": frozenset(breaks), **tests},
    )


def _owners(bases: Iterable[type[AotTestCase]]) -> dict[str, type[AotTestCase]]:
    """By test the class that has it."""
    owners: dict[str, type[AotTestCase]] = {}
    for cls in bases:
        for test in unittest.TestLoader().getTestCaseNames(cls):  # the default one obeys -k
            if test in owners:
                raise UsageError(f"{owners[test].__name__} and {cls.__name__} both have {test}: rename one")
            owners[test] = cls
    return owners


def _through(test: Callable[..., Any], known: Sequence[Known]) -> Callable[..., Any]:
    @functools.wraps(test)
    def again(self: Any) -> None:
        test(self)
        if not self.front_end.entries:
            raise AssertionError(f"it does not go through {self.front_end.name}: list it as one that stays")

    for one in known:
        again = expect(one)(again)
    return again


class _Rerun(AotTestCase):
    """Gives each test a front end of its own."""

    make: Callable[..., ThroughDynamo]
    front_end: ThroughDynamo
    breaks: frozenset[str]

    def front_end_name(self) -> str:
        """That of the front ends that are made."""
        return self.make().name

    def setUp(self) -> None:
        """The front end replaces the class's."""
        super().setUp()
        self.front_end = self.make(breaks=self._testMethodName in self.breaks)

    def _verify_with(
        self, function: Any, inputs: Any, grad: bool, options: dict[str, Any]
    ) -> VerificationResult:
        """With writes in the graph or without, and not both: the front ends share that out."""
        keep = grad is self.front_end.keeps_with_grad
        return super()._verify_with(function, inputs, grad, {"keep_input_mutations": keep, **options})
