"""The values that settings can have: the parsers of their texts, and the largest of them.

A parser raises ValueError for a text that is no such value; its message says what to write. Environment
variables and options of the command line have the same parsers.
"""

from __future__ import annotations

from collections.abc import Callable

# Seconds. Python's selectors count milliseconds in 32 bits; a week is below that and longer than any test.
LONGEST_S = 7 * 24 * 3600.0
# What deadlines are multiplied by at most: an emulator is some hundred times slower than the machine.
LARGEST_MULTIPLIER = 1000
# numpy.random.seed takes 32 bits; torch and random take more.
LARGEST_SEED = 2**32 - 1


def duration(text: str) -> float:
    """Parses seconds, 0 or more; the ValueError says what to write."""
    seconds = _number(text)
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"write a number of seconds from 0 to {LONGEST_S:.0f}")
    return seconds


def positive_seconds(text: str) -> float:
    """Parses seconds above 0, for a deadline; the ValueError says what to write."""
    seconds = _number(text)
    if not 0 < seconds <= LONGEST_S:
        raise ValueError(f"write a number of seconds above 0, up to {LONGEST_S:.0f}")
    return seconds


def timeout_multiplier(text: str) -> float:
    """Parses what deadlines are multiplied by; the ValueError says what to write."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= LARGEST_MULTIPLIER:
        raise ValueError(f"write a number above 0, up to {LARGEST_MULTIPLIER}")
    return number


def name_of_backend(text: str) -> str:
    """Parses the name of a backend, which torch has in lower case; the ValueError says what to write."""
    if not text.isidentifier():
        raise ValueError("write the name of one backend, such as gloo")
    return text.lower()


def name_of_device(text: str) -> str:
    """Parses a device type, without an index; the ValueError says what to write."""
    if not text.isidentifier():
        raise ValueError("write a device type without an index, such as cpu")
    return text


def name_of_module(text: str) -> str:
    """Parses the full name of a module; the ValueError says what to write."""
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError("write the full name of a module, such as package.module")
    return text


def _number(text: str) -> float:
    """Parses a number; infinity and NaN, which are numbers to ``float``, are within no bounds."""
    try:
        return float(text)
    except ValueError:
        raise ValueError("write a number of seconds") from None


def whole_number(text: str) -> int:
    """Parses a number of ASCII digits; the ValueError says what to write."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError("write a whole number, 0 or more")
    return int(text)


def whole_number_above_0(text: str) -> int:
    """Parses a number of things of which there is at least one; the ValueError says what to write."""
    number = whole_number(text)
    if number == 0:
        raise ValueError("write a whole number, 1 or more")
    return number


def seed_number(text: str) -> int:
    """Parses a seed that every random generator takes; the ValueError says what to write."""
    number = whole_number(text)
    if number > LARGEST_SEED:
        raise ValueError(f"write a whole number from 0 to {LARGEST_SEED}")
    return number


def one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    """A parser that accepts only ``choices``, exactly as they are written."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"write one of {', '.join(choices)}")
        return text

    return parse
