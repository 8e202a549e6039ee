"""The faults of the small suite, and its expected survivors."""

from __future__ import annotations

from collections.abc import Callable

from suites.planting import Mutant, Touch, replacing
from suites.selftest.tools.planted import arithmetic

HERE = "suites.selftest.tools.planted"


def _off_by_one(original: Callable[[int], int], number: int) -> int:
    return original(number) + 1


def _never(original: Callable[[int], bool], step: int) -> bool:
    return False


def _forget_a_bit(touch: Touch) -> None:
    right = arithmetic.double

    def double(number: int) -> int:
        if number < 8:
            return right(number)
        touch()
        return right(number) & ~1 & ~16

    arithmetic.double = double


MUTANTS = (
    replacing("off_by_one", "double adds one", f"{HERE}.arithmetic:double", _off_by_one),
    replacing("small", "double adds one to 1", f"{HERE}.arithmetic:double", _off_by_one, lambda n: n == 1),
    replacing("never_done", "the third step is not enough", f"{HERE}.arithmetic:is_done", _never),
    replacing("unseen", "unused returns something", f"{HERE}.arithmetic:unused", lambda original: 1),
    Mutant("forgets_a_bit", "double forgets bit 4 of large numbers", _forget_a_bit),
)
SURVIVORS = {
    "off_by_one": {
        "*.SingleTest.test_type": "the type is right",
        "*.SingleTest.test_value": "an entry that is wrong",
        "*.no_such_test": "an entry for nothing",
    },
}
TESTS = ("suites/selftest/tools/planted/sums.py",)
