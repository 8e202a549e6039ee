"""``RanksMark``: what ``@pytest.mark.ranks`` says about a test function, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.cases import backend_names
from harness.errors import UsageError
from harness.settings import RANK_MODES

# What ranks of a function can be; local ones play DTensor's cases alone.
MODES = tuple(mode for mode in RANK_MODES if mode != "local")
_USAGE = "@pytest.mark.ranks(4), or @pytest.mark.ranks(4, backend=None, mode='pooled')"


@dataclass(frozen=True, slots=True)
class RanksMark:
    """What ``@pytest.mark.ranks`` asks for: how many ranks, the backend of their group, and the rank mode.

    ``backend`` None: no default process group is made. ``mode`` None: fresh ranks, or what ``--ranks`` says.
    """

    world_size: int
    backend: str | None = "gloo"
    mode: str | None = None

    @classmethod
    def of(
        cls,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        parameters: Mapping[str, Any] = types.MappingProxyType({}),
    ) -> RanksMark:
        """The mark with these arguments; UsageError, in one line, where they make no sense.

        A number of ranks that is a text names the one of the test's ``parameters`` that is the number.
        """
        try:
            mark = cls(*args, **kwargs)
        except TypeError:
            raise UsageError(f"{_form(args, kwargs)}: write {_USAGE}") from None
        if isinstance(mark.world_size, str):
            mark = dataclasses.replace(mark, world_size=_parameter(mark.world_size, args, kwargs, parameters))
        if type(mark.world_size) is not int or mark.world_size < 1:
            raise UsageError(f"{_form(args, kwargs)}: the number of ranks is 1 or more; write {_USAGE}")
        if mark.mode is not None and mark.mode not in MODES:
            raise UsageError(f"{_form(args, kwargs)}: mode is one of {', '.join(MODES)}")
        if mark.backend is not None:
            _check_backend(mark.backend, _form(args, kwargs))
        return mark


def _parameter(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], parameters: Mapping[str, Any]
) -> int:
    if name not in parameters:
        raise UsageError(
            f"{_form(args, kwargs)}: the test has no parameter {name!r}: write "
            f'@pytest.mark.parametrize("{name}", [2, 4]), or a number'
        )
    value: int = parameters[name]  # of() checks that it is one
    return value


def _check_backend(backend: object, form: str) -> None:
    if not isinstance(backend, str):
        raise UsageError(f"{form}: backend is a name; write {_USAGE}")
    try:
        backend_names.check_in_parent(backend)
    except UsageError as error:
        raise UsageError(f"{form}: {error}") from None


def _form(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    shown = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return f"@pytest.mark.ranks({', '.join(shown)})"
