"""The functions that the small suite tests and in which its faults are planted."""


def double(number: int) -> int:
    """Returns twice the number."""
    return 2 * number


def is_done(step: int) -> bool:
    """Whether a number of steps is at least three."""
    return step >= 3


def unused() -> None:
    """A function that no test calls."""
