"""``TestCase``: unittest's, with an ``assertEqual`` for tensors, seeded generators and expected outputs.

Every other test case of this library derives from this class. It does not handle processes and does not
import torch.
"""

from __future__ import annotations

import contextlib
import re
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from harness.comparison import Comparison, Difference, Rules
from harness.expected_output import ExpectationTestCase
from harness.parametrization import require_instantiated
from harness.seeding import add_reproduction, base_seed, seed_all
from harness.system import originals
from harness.tracebacks import show_users_frames
from harness.watched_method import WatchedMethod

__unittest = True  # For unittest, which then leaves this module's frames out of a failure's traceback.

Message = str | Callable[[str], str] | None


class TestCase(ExpectationTestCase):
    """A ``unittest.TestCase`` for code that works on tensors.

    Before the ``setUp`` of each test, the generators of ``random``, numpy and torch are seeded with
    ``HARNESS_SEED`` (1234 by default), and a failure names that seed. ``precision`` and ``rel_tol`` are the
    least absolute and relative tolerance of every comparison that is called without tolerances.
    """

    precision: float = 0.0
    rel_tol: float = 0.0

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self.__seed: int | None = None

    # -- seeding

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Seeds the generators with the base seed and runs the test as unittest does."""
        self.__reseed()
        return super().run(result)

    def debug(self) -> None:
        """Seeds the generators with the base seed and runs the test without collecting errors."""
        self.__reseed()
        super().debug()

    def __reseed(self) -> None:
        self.__seed = base_seed()
        seed_all(self.__seed)

    # unittest calls these three around the methods that a test's author writes (python/cpython#13386). An
    # exception gets its note about the seed here, and loses the frames between the author's, so that every
    # runner shows it so (unittest, pytest, run_tests.py).

    def _callSetUp(self) -> None:
        with _Telling(self.__seed, self.failureException):
            super()._callSetUp()  # type: ignore[misc]  # typeshed leaves unittest's own hooks out

    def _callTestMethod(self, method: Callable[[], object]) -> None:
        require_instantiated(type(self), self._testMethodName)
        watched = WatchedMethod(self, method)
        with _Telling(self.__seed, self.failureException):
            super()._callTestMethod(watched.call)  # type: ignore[misc]  # as above
        if watched.not_run() is not None:
            self.addCleanup(watched.require_run)  # a failed cleanup never counts as the expected failure

    def _callTearDown(self) -> None:
        with _Telling(self.__seed, self.failureException):
            super()._callTearDown()  # type: ignore[misc]  # as above

    @contextlib.contextmanager
    def subTest(self, *args: Any, **params: Any) -> Iterator[None]:
        """A sub-test as unittest's; its failure names the seed as well."""
        with super().subTest(*args, **params), _Telling(self.__seed, self.failureException):
            yield

    # -- equality

    def assertEqual(
        self,
        x: Any,
        y: Any,
        msg: Message = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:
        """Fails unless ``x``, the actual value, equals ``y``, the expected value.

        * Tensors and numpy arrays, in any mix, compare as ``torch.testing.assert_close`` does: by shape,
          values and (unless ``exact_dtype=False``) dtype, and on request by device, layout and stride. Sparse
          tensors compare by their coalesced values, DTensors by mesh, placements and local shard.
        * A tensor compares with a sequence as with the tensor that the sequence describes, whatever its
          dtype, and with a number if the tensor has one element.
        * Numbers compare by value: 1, 1.0 and True are equal as in Python, 5 and True are not. Floats and
          complex numbers get the tolerances of float32 (``harness.tolerances``).
        * Sequences of any type compare by element, mappings of any type by key, dataclasses by field; a
          difference inside says where: ``['a'][2].loss``.
        * Everything else compares by ``==``, with unittest's messages for strings, sets and the like; text
          never equals a number, nor a list.

        ``msg`` is added to the message (replaces it if ``longMessage`` is off); a callable is given the
        message and returns what to show. ValueError where only one of ``atol`` and ``rtol`` is given, or a
        number is compared with other than one element; TypeError for a DTensor and something else.
        """
        __tracebackhide__ = True
        rules = Rules(
            atol=atol,
            rtol=rtol,
            equal_nan=equal_nan,
            exact_dtype=exact_dtype,
            exact_device=exact_device,
            exact_layout=exact_layout,
            exact_stride=exact_stride,
            exact_is_coalesced=exact_is_coalesced,
            least_atol=self.precision,
            least_rtol=self.rel_tol,
        )
        found = self.__difference(x, y, rules)
        if found is not None:
            self.__fail(str(found), msg)

    def assertNotEqual(
        self,
        x: Any,
        y: Any,
        msg: Message = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:
        """Fails where ``assertEqual`` with the same arguments would pass.

        Where ``assertEqual`` raises another error than a failure (for one tolerance without the other, say),
        this raises the same error.
        """
        __tracebackhide__ = True
        rules = Rules(
            atol=atol,
            rtol=rtol,
            equal_nan=equal_nan,
            exact_dtype=exact_dtype,
            exact_device=exact_device,
            exact_layout=exact_layout,
            exact_stride=exact_stride,
            exact_is_coalesced=exact_is_coalesced,
            least_atol=self.precision,
            least_rtol=self.rel_tol,
        )
        if self.__difference(x, y, rules) is None:
            self.__fail(f"Expected different values, but {x!r} equals {y!r}", msg)

    def assertEqualIgnoreType(self, x: Any, y: Any, msg: Message = None, **kwargs: Any) -> None:
        """``assertEqual`` with ``exact_dtype=False``."""
        __tracebackhide__ = True
        self.assertEqual(x, y, msg, exact_dtype=False, **kwargs)

    def __difference(self, x: Any, y: Any, rules: Rules) -> Difference | None:
        return Comparison(rules, _compare_arrays, super().assertEqual).difference(x, y)

    def __fail(self, message: str, msg: Message) -> NoReturn:
        __tracebackhide__ = True
        if callable(msg):
            message = msg(message)
        elif msg is not None:
            message = f"{message}\n{msg}" if self.longMessage else msg
        raise self.failureException(message)

    # -- warnings

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: type[Warning], regex: str = "") -> Iterator[None]:
        """Fails unless the body warns with exactly ``category`` and a message whose start matches ``regex``.

        Inside the body, torch repeats warnings that it otherwise gives once in a process. The body's other
        warnings are given again after it. Python's warning filters belong to the process, so only one thread
        at a time may use this.
        """
        pattern = re.compile(regex)
        matched: list[warnings.WarningMessage] = []
        others: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught, _warn_always():
                warnings.simplefilter("always")
                yield
        finally:
            for warning in caught:
                fits = warning.category is category and pattern.match(str(warning.message))
                (matched if fits else others).append(warning)
            for other in others:
                _warn_again(other)
        if not matched:
            seen = "\n".join(f"  {w.category.__name__}: {w.message}" for w in others) or "  none at all"
            self.fail(f"no {category.__name__} matched {regex!r}; the warnings were\n{seen}")


class _Telling:
    """Adds the seed to an exception that leaves the block, and leaves the user's frames in its tracebacks."""

    __slots__ = ("_assertion", "_seed")

    def __init__(self, seed: int | None, assertion: type[BaseException]) -> None:
        self._seed = seed
        self._assertion = assertion

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if error is not None:
            self._tell(error, trace)

    @originals.harness_code
    def _tell(self, error: BaseException, trace: types.TracebackType | None) -> None:
        if isinstance(error, unittest.SkipTest):
            return
        if self._seed is not None and isinstance(error, Exception):
            add_reproduction(error, self._seed)
        show_users_frames(error, self._assertion)
        shown = error.__traceback__
        if trace is not None and shown is not trace and sys.version_info < (3, 11):
            trace.tb_next = shown  # Python 3.10 raises it with the traceback of before


def _compare_arrays(whole: Comparison, x: Any, y: Any) -> Difference | None:
    from harness.tensors import compare_arrays  # imports torch; whoever has a tensor has it already

    return compare_arrays(whole, x, y)


@contextlib.contextmanager
def _warn_always() -> Iterator[None]:
    """Lets torch repeat its once-only warnings inside the block; does nothing where torch is not imported.

    torch gives some warnings once in a process (pytorch/pytorch#47624, pytorch/pytorch#48560).
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def _warn_again(warning: warnings.WarningMessage) -> None:
    warnings.warn_explicit(
        warning.message, warning.category, warning.filename, warning.lineno, source=warning.source
    )
