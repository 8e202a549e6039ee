"""What the ranks hold before a collective: values that differ by rank, for each dtype, shape and layout.

Owns the input patterns and the lists of cases. Everything is a function of the rank and the part, so that a
rank knows what every other rank holds without asking, and hands that to ``reference``. Two patterns:

* ``Case.label`` names its origin: no two (rank, part) pairs agree in any element. For moving data.
* ``Case.term`` is made for one reduction: the result changes when any one rank's term is left out,
  and stays in the range of the dtype. For arithmetic. ``test_reference.py`` checks that it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.generic]
Shape = tuple[int, ...]

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
REALS = (*FLOATS, *INTEGERS, torch.bool)
#: What gloo moves and adds up (its gather moves no complex numbers).
EVERYTHING = (*REALS, *COMPLEX)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
#: What gloo refuses with "Invalid scalar type" in every collective; send and recv move any bytes.
REFUSED = (torch.int16, torch.uint16, torch.uint32, torch.uint64, *FLOAT8)

#: The dtypes that an operation is defined for, by its name in lower case.
DTYPES_OF_OP = {
    "sum": EVERYTHING,
    "avg": (*FLOATS, *COMPLEX),
    "product": REALS,
    "min": REALS,
    "max": REALS,
    "band": (*INTEGERS, torch.bool),
    "bor": (*INTEGERS, torch.bool),
    "bxor": (*INTEGERS, torch.bool),
}

#: Enough elements for every combination of four booleans, and not a multiple of 3 ranks.
MATRIX: Shape = (4, 5)
SHAPES: tuple[Shape, ...] = ((), (1,), (7,), (2, 3, 4), (0,), (0, 3), (3, 347))

#: A label and a term are drawn from these, so that both fit int8 and four terms multiply to 120 at most.
LABELS, TERMS = 127, 5
#: Fills an output before the call; no label has this value.
BLANK = 127

EXACTLY: Mapping[str, float] = {"rtol": 0, "atol": 0}
#: What four terms lose in a dtype's arithmetic: a few roundings, of 11 bits, of 8 bits, of 24 bits and more.
ROUNDING: Mapping[torch.dtype, Mapping[str, float]] = {
    torch.float16: {"rtol": 2e-3, "atol": 0},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 0},
    torch.float32: {"rtol": 5e-7, "atol": 0},
    torch.float64: {"rtol": 1e-15, "atol": 0},
    torch.complex64: {"rtol": 5e-7, "atol": 0},
    torch.complex128: {"rtol": 1e-15, "atol": 0},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of tensor that a collective is tried with.

    ``transposed`` lays the elements out in reversed order of dimensions: dense, but not contiguous.
    """

    dtype: torch.dtype = torch.float32
    shape: Shape = MATRIX
    transposed: bool = False

    def __str__(self) -> str:
        """Name it as a failing sub-test should show it: ``float32[4, 5] transposed``."""
        name = f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"
        return f"{name} transposed" if self.transposed else name

    def label(self, rank: int, part: int = 0) -> Array:
        """Return values that tell ``rank`` (0-3) and ``part`` (0-3) from any other pair, in every element.

        Booleans take five elements for it: the bits of the pair's number, over and over, each time from the
        next bit on, so that rows of five elements differ too.
        """
        index = _index(self.shape)
        if self.dtype == torch.bool:
            bits: Array = (4 * rank + part + 1) >> ((index + index // 5) % 5) & 1 == 1
            return bits
        return self._numbers((index + 31 * rank + 8 * part) % LABELS)

    def term(self, op: str, rank: int, part: int = 0) -> Array:
        """Return what ``rank`` (0-3) contributes to part ``part`` (0-3) of a reduction by ``op``.

        Small positive numbers; for bitwise operations all of seven bits; for booleans bit ``rank`` of a
        counter, so that every combination of the ranks' values occurs.
        """
        index = _index(self.shape)
        if self.dtype == torch.bool:
            bits: Array = (index + 5 * part) >> rank & 1 == 1
            return bits
        if op in ("bor", "bxor"):
            return self.label(rank, part)
        if op == "band":
            return LABELS - self.label(rank, part)
        # the second summand tells blocks apart whose size is a multiple of the number of terms
        return self._numbers(1 + (index + index // TERMS + 2 * rank + part) % TERMS)

    def tensor(self, values: Array, device: torch.device) -> torch.Tensor:
        """Return a new tensor of this case's dtype and layout, but the values' shape."""
        tensor = torch.tensor(values, device=device).to(self.dtype)
        if not self.transposed:
            return tensor
        dims = tuple(reversed(range(tensor.dim())))
        return tensor.permute(dims).contiguous().permute(dims)

    def blank(self, device: torch.device, rows: int | None = None) -> torch.Tensor:
        """Return an output that holds no label yet; ``rows``: its size in dimension 0, if not the case's."""
        shape = self.shape if rows is None else (rows, *self.shape[1:])
        return self.tensor(np.full(shape, BLANK % 2 if self.dtype == torch.bool else BLANK), device)

    def _numbers(self, whole: NDArray[np.int64]) -> Array:
        """Return them in the numpy type that computes for this dtype; with fractions where it has them."""
        if self.dtype.is_complex:
            return (whole + 0.25 + 1j * (0.5 - whole)).astype(numpy_dtype(self.dtype))
        if self.dtype.is_floating_point:
            return (whole + 0.25).astype(numpy_dtype(self.dtype))
        return whole.astype(numpy_dtype(self.dtype))


def tolerance_of(dtype: torch.dtype) -> Mapping[str, float]:
    """Return the ``rtol`` and ``atol`` that a reduction in ``dtype`` may be off by: 0 for whole numbers."""
    return ROUNDING.get(dtype, EXACTLY)


def numpy_dtype(dtype: torch.dtype) -> np.dtype[np.generic]:
    """Return the numpy type in which to compute for ``dtype``: itself, but float32 for 16 bits and less."""
    if dtype.is_floating_point and dtype.itemsize <= torch.float16.itemsize:
        return np.dtype(np.float32)
    return np.dtype(str(dtype).removeprefix("torch."))


def dtype_cases(*dtypes: torch.dtype) -> Iterator[Case]:
    """Yield each dtype once: for what shapes have been tried on."""
    for dtype in dtypes:
        yield Case(dtype)


def every_case(*dtypes: torch.dtype) -> Iterator[Case]:
    """Yield each dtype once, then each shape and the other layout with one: float32 if it is there."""
    yield from dtype_cases(*dtypes)
    plain = torch.float32 if torch.float32 in dtypes else dtypes[0]
    for shape in SHAPES:
        yield Case(plain, shape)
    yield Case(plain, transposed=True)


def few_cases(*dtypes: torch.dtype) -> Iterator[Case]:
    """Yield four cases: enough to show a difference between ways to call, not between types."""
    yield Case(dtypes[0])
    yield Case(dtypes[-1])
    yield Case(dtypes[0], ())
    yield Case(dtypes[0], (7,))


def _index(shape: Shape) -> NDArray[np.int64]:
    return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
