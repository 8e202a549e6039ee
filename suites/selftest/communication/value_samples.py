"""Values of calls as ranks write them, for the tests of what is decided about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.communication.tensor_values.values import CallValues, Tensor
from harness.communication_call import Call
from suites.selftest.communication.samples import call


def tensor(numbers: Any, dtype: str = "float32") -> Tensor:
    """A tensor of a dtype that numpy has, from nested lists of numbers."""
    array = np.array(numbers, dtype)
    return Tensor(dtype, array.shape, array.tobytes())


def values(
    operation: str,
    given: Sequence[Tensor],
    got: Sequence[Tensor] | None,
    of: Call | None = None,
    **fields: Any,
) -> CallValues:
    """What one rank gave and got; ``fields`` are of the call's signature or of the values."""
    own = {name: fields.pop(name) for name in ("raised", "why_not", "factor", "source") if name in fields}
    made = of or call(operation, state="ended")
    made = replace(made, signature=replace(made.signature, **fields))
    return CallValues(made, operation, tuple(given), None if got is None else tuple(got), **own)
