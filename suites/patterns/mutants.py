"""The faults that this suite is to notice, and the tests that may pass all the same.

python tools/mutants.py patterns
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from suites.compiler_faults import COMPILERS
from suites.planting import Mutant, replacing


def _as_it_is(original: Callable[..., Any], function: Any = None, **options: Any) -> Any:
    """``torch.compile``, called with the function or as a decorator, that compiles nothing."""
    return function if function is not None else lambda decorated: decorated


def _nothing(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return contextlib.nullcontext()


MUTANTS: tuple[Mutant, ...] = (
    replacing("compile_is_a_noop", "torch.compile returns the function", "torch:compile", _as_it_is),
    *COMPILERS,
    replacing(
        "compiled_autograd_is_off",
        "no backward is captured",
        "torch._dynamo.compiled_autograd:_enable",
        _nothing,
    ),
    replacing(
        "storages_keep_their_size",
        "graphs do not resize storages",
        "torch._dynamo.variables.tensor:UntypedStorageVariable.call_method",
        lambda original, self, tx, name, args, kwargs: (
            self if name == "resize_" else original(self, tx, name, args, kwargs)
        ),
        when=lambda self, tx, name, args, kwargs: name == "resize_",
    ),
)

SURVIVORS: dict[str, dict[str, str]] = {
    "compiled_autograd_is_off": {"*.RegionsTest.test_off_after_an_exception": "nothing is to be captured"},
}
