"""Element types: how the bytes of a tensor become numbers of numpy, also where numpy lacks the dtype.

Dtypes are named without their module: ``"bfloat16"``. Elements are rows of bytes, an array of shape
(elements, bytes of one), as torch has them in memory, in this machine's byte order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: The gap between 1 and the next larger number of a dtype: the relative error allowed for each term.
EPSILON: Mapping[str, float] = {
    "float8_e4m3fn": 2**-3,
    "float8_e4m3fnuz": 2**-3,
    "float8_e5m2": 2**-2,
    "float8_e5m2fnuz": 2**-2,
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float32": 2**-23,
    "float64": 2**-52,
    "complex32": 2**-10,
    "complex64": 2**-23,
    "complex128": 2**-52,
}
#: The largest number of a dtype, and the error allowed for each term that is nearly 0: where numbers are too
#: small for the dtype's precision. That of a half-precision dtype is its smallest number; the others' numbers
#: below the smallest normal one may be flushed to 0.
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "float8_e4m3fn": (448.0, 2**-9),
    "float8_e4m3fnuz": (240.0, 2**-10),
    "float8_e5m2": (57344.0, 2**-16),
    "float8_e5m2fnuz": (57344.0, 2**-17),
    "float16": (65504.0, 2**-24),
    "bfloat16": (2.0**127 * (2 - 2**-7), 2.0**-126),
    "float32": (2.0**127 * (2 - 2**-23), 2.0**-126),
    "float64": (np.finfo("float64").max, 2.0**-1022),
    "complex32": (65504.0, 2**-24),
    "complex64": (2.0**127 * (2 - 2**-23), 2.0**-126),
    "complex128": (np.finfo("float64").max, 2.0**-1022),
}
_WIDEST = 16  # bytes of a complex128
_WHOLE = frozenset({"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})


def rows_of_bytes(data: bytes, elements: int) -> Array:
    """The elements of a tensor as rows of bytes; ValueError where the data is no multiple of ``elements``."""
    size = len(data) // elements if elements else 1
    return np.frombuffer(data, np.uint8).reshape(elements, size)


def same_width(rows: Iterable[Array]) -> list[Array]:
    """Arrays of rows of bytes of one dtype, of which those without a row get the width of the others."""
    found = list(rows)
    width = max((each.shape[1] for each in found if len(each)), default=1)
    return [each if len(each) else each.reshape(0, 1).repeat(width, axis=1) for each in found]


def is_exact(dtype: str) -> bool:
    """Whether arithmetic in a dtype does not round: integers and booleans."""
    return dtype in _WHOLE


def largest(dtype: str) -> float:
    """The largest number of a dtype that rounds."""
    return _BOUNDS[dtype][0]


def least(dtype: str) -> float:
    """The absolute error that a dtype which rounds has for numbers near 0."""
    return _BOUNDS[dtype][1]


def numbers(rows: Array, dtype: str) -> Array | None:
    """Elements as numbers to calculate with; None for a dtype that is known by its bytes alone.

    Integers and booleans keep their type, all others are float64 or complex128, in which every one of their
    numbers is exact.
    """
    decode = _DECODERS.get(dtype)
    if decode is None:
        return None
    if not len(rows):  # whose width may be any
        rows = np.zeros((1, _WIDEST), np.uint8)
        return decode(rows).reshape(-1)[:0]
    with np.errstate(invalid="ignore"):  # of NaNs that signal
        found: Array = decode(np.ascontiguousarray(rows)).reshape(len(rows))
    return found


def _viewed(dtype: str, wide: str) -> Callable[[Array], Array]:
    return lambda rows: rows.view(dtype).astype(wide)


def _bfloat16(rows: Array) -> Array:
    wide: Array = (rows.view("uint16").astype("uint32") << 16).view("float32").astype("float64")
    return wide


def _complex32(rows: Array) -> Array:
    parts = rows.view("float16").astype("float64")
    whole: Array = parts[:, 0] + 1j * parts[:, 1]
    return whole


def _float8(exponent_bits: int, bias: int, *, finite: bool, unsigned_zero: bool) -> Callable[[Array], Array]:
    """A decoder of a float8, by a table of its 256 numbers.

    ``finite``: all ones are NaN, and no number is infinite. ``unsigned_zero``: what would be -0 is the NaN.
    The formats are those of arXiv:2209.05433 and, with the unsigned zero, of arXiv:2206.02915.
    """

    @functools.cache
    def table() -> Array:
        fraction_bits = 7 - exponent_bits
        found = np.empty(256)
        for code in range(256):
            exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
            fraction = (code & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
            value = (bool(exponent) + fraction) * 2.0 ** (max(exponent, 1) - bias)
            ones = exponent == (1 << exponent_bits) - 1
            if unsigned_zero:
                value = np.nan if code == 0x80 else value
            elif finite:
                value = np.nan if code & 0x7F == 0x7F else value
            elif ones:
                value = np.nan if fraction else np.inf
            found[code] = -value if code & 0x80 else value
        return found

    return lambda rows: table()[rows[:, 0]]


_DECODERS: Mapping[str, Callable[[Array], Array]] = {
    "bool": lambda rows: rows != 0,
    **{name: _viewed(name, name) for name in sorted(_WHOLE - {"bool"})},
    **{name: _viewed(name, "float64") for name in ("float16", "float32", "float64")},
    **{name: _viewed(name, "complex128") for name in ("complex64", "complex128")},
    "bfloat16": _bfloat16,
    "complex32": _complex32,
    "float8_e4m3fn": _float8(4, 7, finite=True, unsigned_zero=False),
    "float8_e5m2": _float8(5, 15, finite=False, unsigned_zero=False),
    "float8_e4m3fnuz": _float8(4, 8, finite=True, unsigned_zero=True),
    "float8_e5m2fnuz": _float8(5, 16, finite=True, unsigned_zero=True),
}
