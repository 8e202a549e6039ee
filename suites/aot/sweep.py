"""What the two sweeps share: which tests run by default, and how a test judges its samples.

A sweep has a test for each entry of one of torch's own databases of sample calls. They are slow tests but for
a sample, drawn by the tests' names so that an entry more or less changes nothing for the others. In the
standard run a test tries some of its entry's calls, which are of few kinds and stand in their order.
"""

from __future__ import annotations

import unittest
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.utils._pytree import tree_map_only

from harness import TEST_WITH_SLOW, slow_test, timeout
from harness.graphs.verifier import add_note
from suites.aot.known import Known, fail_later

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: One test of so many is in the sample, unless it is a long one.
SAMPLED = 10
#: Calls of an entry that are tried: all by ``--slow``, and where some are known to fail.
MOST = None if TEST_WITH_SLOW else 3
#: Seconds. A test that is not called long takes some seconds, the longest of all some minutes.
DEADLINE_S = 600
LONG_DEADLINE_S = 3600

#: Of a failing test's message: kinds of failures, characters of each, characters of a sample.
KINDS_SHOWN, KIND_WIDTH, DESCRIPTION_WIDTH = 10, 200, 500

S = TypeVar("S")


def in_sample(test_name: str) -> bool:
    """Whether the sample holds this test; a matter of its name alone."""
    return zlib.crc32(test_name.encode()) % SAMPLED == 0


def some(samples: Iterable[S], most: int | None) -> list[tuple[int, S]]:
    """At most so many of the samples, each with its number: from the first to the last, evenly."""
    every = list(enumerate(samples))
    if most is None or len(every) <= most:
        return every
    return [every[place * (len(every) - 1) // (most - 1)] for place in range(most)]


def add_test(
    cls: type,
    name: str,
    body: Callable[[Any], None],
    *,
    fails: bool,
    long: bool,
    decorators: Sequence[Callable[..., Any]] = (),
) -> None:
    """Give ``cls`` the test ``name`` that calls ``body(case)``.

    ``fails``: it is expected to. ``long``: it is no part of the sample, and has more time.
    """

    def test(self: Any) -> None:
        body(self)

    test.__name__ = name
    test.__qualname__ = f"{cls.__qualname__}.{name}"
    test.__module__ = cls.__module__
    test = timeout(LONG_DEADLINE_S if long else DEADLINE_S)(test)
    if long or not in_sample(name):
        test = slow_test(test)
    for decorator in decorators:
        test = decorator(test)
    setattr(cls, name, unittest.expectedFailure(test) if fails else test)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A sample that failed."""

    number: int
    described: str
    error: Exception

    def raised(self) -> Exception:
        """The error, with the sample as a note."""
        add_note(self.error, f"sample {self.number}: {self.described}")
        return self.error


def check_samples(
    case: unittest.TestCase,
    samples: Iterable[S],
    check: Callable[[S], None],
    describe: Callable[[S], str],
    known: Sequence[Known],
) -> None:
    """Run ``check`` on the samples, or on ``MOST`` of them; the test passes if all do, and there are any.

    Where failures are ``known``, each has to happen to a sample at least, and no other failure to any. Then
    the first is raised, for unittest to expect.
    """
    failures: list[_Failure] = []
    tried = some(samples, None if known else MOST)
    for number, sample in tried:
        try:
            check(sample)
        except Exception as error:  # noqa: BLE001 - all are sorted below
            failures.append(_Failure(number, describe(sample), error))
    expected, unexpected = _sorted(failures, known)
    problem = _problem(expected, unexpected, known, len(tried))
    if problem is not None and known:
        fail_later(case, problem)
    elif problem is not None:
        raise problem
    elif expected:
        one, error = next(iter(expected.items()))
        add_note(error, f"known: {one.why}")
        raise error


def _problem(
    expected: Mapping[Known, Exception], unexpected: Sequence[_Failure], known: Sequence[Known], count: int
) -> Exception | None:
    """What the test fails with, None where all is as it should be."""
    if not count:
        return AssertionError("there is no sample: nothing was tested")
    if unexpected:
        return _summed_up(unexpected, count)
    for one in known:
        if one not in expected:
            return AssertionError(f"none of {count} samples fails so: take it off the table ({one})")
    return None


def _sorted(
    failures: Iterable[_Failure], known: Sequence[Known]
) -> tuple[dict[Known, Exception], list[_Failure]]:
    """The known failures that happened, each with its first error, and the failures that nobody knows."""
    expected: dict[Known, Exception] = {}
    unexpected = []
    for failure in failures:
        fitting = next((one for one in known if one.is_this(failure.error)), None)
        if fitting is None:
            unexpected.append(failure)
        elif fitting not in expected:
            expected[fitting] = failure.raised()
    return expected, unexpected


def _summed_up(failures: Sequence[_Failure], count: int) -> Exception:
    """The first failure, with a note on how many there are and of which kinds."""
    kinds = Counter(_kind(failure.error) for failure in failures)
    error = failures[0].raised()
    add_note(error, f"{len(failures)} of {count} samples fail:")
    for kind, times in kinds.most_common(KINDS_SHOWN):
        add_note(error, f"  {times} x {kind}")
    return error


def _kind(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:KIND_WIDTH]}"


def shown(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Arguments in a line: tensors by dtype and shape, everything else as it prints."""
    args, kwargs = tree_map_only(torch.Tensor, _Shown, (tuple(args), dict(kwargs)))
    said = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return " ".join(", ".join(said).split())[:DESCRIPTION_WIDTH]


class _Shown:
    """Prints as a tensor's dtype and shape."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._said = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"

    def __repr__(self) -> str:
        return self._said
