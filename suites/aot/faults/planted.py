"""How a fault is put in a function's place: it looks for what it acts on, and then a watch can look too."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from suites.planting import Mutant, Touch


def changing(
    name: str,
    what: str,
    targets: Sequence[str],
    find: Callable[..., Any],
    change: Callable[[Any, Any], Any],
) -> Mutant:
    """A mutant of what ``targets`` return: ``change(result, found)``, for what ``find`` found, given the
    result and the arguments.

    A target is ``module:attribute`` or ``module:Class.method``. What is found is true; where it is not, the
    call is not concerned.
    """

    def faulty(original: Callable[..., Any], touch: Touch, active: bool) -> Callable[..., Any]:
        @functools.wraps(original)
        def substitute(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            found = find(result, *args, **kwargs)
            if not found:
                return result
            touch()
            return change(result, found) if active else result

        return substitute

    return instead(name, what, targets, faulty)


def instead(
    name: str,
    what: str,
    targets: Sequence[str],
    faulty: Callable[[Callable[..., Any], Touch, bool], Callable[..., Any]],
) -> Mutant:
    """A mutant that puts ``faulty(original, touch, active)`` in each target's place.

    Where it is not ``active`` it watches.
    """

    def put(touch: Touch, active: bool) -> None:
        for target in targets:
            module, _, path = target.partition(":")
            *outer, attribute = path.split(".")
            owner: Any = importlib.import_module(module)
            for part in outer:
                owner = getattr(owner, part)
            setattr(owner, attribute, faulty(getattr(owner, attribute), touch, active))

    return Mutant(name, what, lambda touch: put(touch, True), lambda touch: put(touch, False))
