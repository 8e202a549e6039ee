"""What the small suite tests."""


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


def is_done(step: int) -> bool:
    """Whether three steps are enough."""
    return step >= 3


def unused() -> None:
    """Called by nobody."""
