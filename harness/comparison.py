"""``TestCase.assertEqual``'s comparison of two values: returns the first difference under given rules.

A difference is returned and never raised. What is raised is a mistake in the call (``ValueError``,
``TypeError``) or an error of the compared objects, so "not equal" never looks like "cannot be compared".
Tensors are compared in ``harness.tensors``, with the default tolerances of ``harness.tolerances``. Torch and
numpy are looked up in ``sys.modules``: while nobody has imported them no value can be theirs, and a test
without tensors imports neither.
"""

from __future__ import annotations

import cmath
import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.tolerances import EXACT, PYTHON_FLOAT

# unittest leaves frames of modules with this name out of a failure's traceback, so that it ends at the
# assertion in the test and not at the comparison under it.
__unittest = True

BYTES = (str, bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a comparison; the fields are ``TestCase.assertEqual``'s arguments of the same name.

    ``atol`` and ``rtol`` are given together or not at all. Without them the defaults of
    ``harness.tolerances`` for the compared dtypes hold, raised to ``least_atol`` and ``least_rtol``.
    ValueError where only one is given, because the other would be a default that the reader does not see, or
    where a tolerance is negative or NaN.
    """

    atol: float | None = None
    rtol: float | None = None
    equal_nan: bool = True
    exact_dtype: bool = True
    exact_device: bool = False
    exact_layout: bool = False
    exact_stride: bool = False
    exact_is_coalesced: bool = False
    least_atol: float = 0.0
    least_rtol: float = 0.0

    def __post_init__(self) -> None:
        if (self.atol is None) != (self.rtol is None):
            given, missing = ("rtol", "atol") if self.atol is None else ("atol", "rtol")
            raise ValueError(f"{given} was given without {missing}: give both tolerances or neither")
        for name, value in (("atol", self.atol), ("rtol", self.rtol)):
            if value is not None and not value >= 0:
                raise ValueError(f"{name}={value!r}: a tolerance is a number of 0 or more")

    def tolerances(self, default: tuple[float, float]) -> tuple[float, float]:
        """The ``(rtol, atol)`` to compare with; ``default`` is that of the compared types."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        return max(default[0], self.least_rtol), max(default[1], self.least_atol)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference found: what differs, and where in the compared values.

    ``path`` reads like the expression that leads to the difference, ``['a'][2].loss``. It is empty where the
    two values themselves differ.
    """

    message: str
    path: str = ""

    def under(self, step: str) -> Difference:
        """The same difference, seen from a container that has the values at ``step``."""
        return Difference(self.message, step + self.path)

    def __str__(self) -> str:
        return f"{self.message}\n\nThe difference is at item {self.path}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares pairs of values under one set of rules.

    ``arrays(comparison, x, y)`` returns the first difference where ``x`` or ``y`` is a tensor or an array, as
    ``harness.tensors.compare_arrays`` does; it is handed this comparison for their elements.
    ``fallback(x, y)`` compares values of all other types. Where they differ it raises AssertionError with the
    message, as ``unittest.TestCase.assertEqual`` does.
    """

    rules: Rules
    arrays: Callable[[Comparison, Any, Any], Difference | None]
    fallback: Callable[[Any, Any], None]

    def difference(self, x: Any, y: Any) -> Difference | None:
        """The first difference between ``x`` and ``y``, None where they are equal.

        These are tried in this order: tensors and arrays with each other, with a number (one element) or with
        a sequence; numbers of any type by value; sequences of any type element by element; mappings of any
        type key by key; dataclasses whose ``__eq__`` is the generated one, field by field; everything else by
        ``fallback``. Errors of the values' own methods are raised as they are.
        """
        if is_array(x) or is_array(y):
            return self.arrays(self, x, y)
        if is_number(x) and is_number(y):
            return self.numbers(x, y)
        if is_sequence(x) and is_sequence(y):
            return self.sequences(x, y)
        if is_mapping(x) and is_mapping(y):
            return self._mappings(x, y)
        if type(x) is type(y) and _compares_by_field(type(x)):
            return self._fields(x, y)
        return self._others(x, y)

    def numbers(self, x: Any, y: Any) -> Difference | None:
        """Compares numbers by value, whatever their types: 1, 1.0, True and 1+0j are equal, as in Python."""
        x, y = _plain(x), _plain(y)
        if x == y or (self.rules.equal_nan and _isnan(x) and _isnan(y)):
            return None
        exact = isinstance(x, int) and isinstance(y, int)
        rtol, atol = self.rules.tolerances(EXACT if exact else PYTHON_FLOAT)
        apart, allowed = _distance(x, y), atol + rtol * _magnitude(y)
        if math.isfinite(apart) and apart <= allowed:
            return None
        return Difference(_number_message(x, y, apart, allowed, rtol, atol))

    def sequences(self, x: Sequence[Any], y: Sequence[Any]) -> Difference | None:
        """Compares sequences of equal length element by element; the type of sequence does not matter."""
        if len(x) != len(y):
            return Difference(f"The sequences differ in length: {len(x)} != {len(y)}.{_surplus(x, y)}")
        names = getattr(type(x), "_fields", None) if type(x) is type(y) else None
        for index in range(len(x)):
            found = self.difference(x[index], y[index])
            if found is not None:
                return found.under(f".{names[index]}" if names else f"[{index}]")
        return None

    def _mappings(self, x: Mapping[Any, Any], y: Mapping[Any, Any]) -> Difference | None:
        missing = [key for key in y if key not in x]
        unexpected = [key for key in x if key not in y]
        if missing or unexpected:
            return Difference(f"The keys differ: missing are {missing!r}, unexpected are {unexpected!r}.")
        for key in x:
            found = self.difference(x[key], y[key])
            if found is not None:
                return found.under(f"[{key!r}]")
        return None

    def _fields(self, x: Any, y: Any) -> Difference | None:
        for field in dataclasses.fields(x):
            if field.compare:
                found = self.difference(getattr(x, field.name), getattr(y, field.name))
                if found is not None:
                    return found.under(f".{field.name}")
        return None

    def _others(self, x: Any, y: Any) -> Difference | None:
        try:
            self.fallback(x, y)
        except AssertionError as error:
            return Difference(str(error))
        return None


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a ``torch.Tensor`` or an instance of a subclass."""
    torch = sys.modules.get("torch")
    # A module that is still being imported has no Tensor yet, and so there is none.
    tensor = getattr(torch, "Tensor", None)
    return tensor is not None and isinstance(value, tensor)


def is_array(value: object) -> bool:
    """Whether ``value`` is a ``torch.Tensor`` or a ``numpy.ndarray``."""
    array = getattr(sys.modules.get("numpy"), "ndarray", None)
    return is_tensor(value) or (array is not None and isinstance(value, array))


def is_number(value: object) -> bool:
    """Whether ``value`` is a bool, int, float or complex of Python or of numpy."""
    if isinstance(value, (int, float, complex)):
        return True
    numpy = sys.modules.get("numpy")
    return hasattr(numpy, "bool_") and isinstance(value, (numpy.number, numpy.bool_))  # type: ignore[union-attr]  # hasattr says that it is there


def is_sequence(value: object) -> bool:
    """Whether ``value`` is compared element by element; text and bytes are compared whole."""
    if isinstance(value, (list, tuple)):
        return True
    return not isinstance(value, BYTES) and isinstance(value, (Sequence, *_module_types().sequences))


def is_mapping(value: object) -> bool:
    """Whether ``value`` is compared key by key."""
    return isinstance(value, (dict, Mapping, *_module_types().mappings))


@dataclass(frozen=True, slots=True)
class _ModuleTypes:
    """Containers of ``torch.nn`` that behave like a sequence or a mapping but are registered as neither.

    See pytorch/pytorch#109706 and pytorch/pytorch#89135.
    """

    sequences: tuple[type, ...] = ()
    mappings: tuple[type, ...] = ()


def _module_types() -> _ModuleTypes:
    nn = sys.modules.get("torch.nn")
    if not hasattr(nn, "ParameterDict"):
        return _ModuleTypes()
    return _ModuleTypes(
        (nn.Sequential, nn.ModuleList, nn.ParameterList),  # type: ignore[union-attr]  # hasattr says that nn is there
        (nn.ModuleDict, nn.ParameterDict),  # type: ignore[union-attr]  # as above
    )


def _compares_by_field(cls: type) -> bool:
    """Whether ``cls`` is a dataclass with the generated ``__eq__``.

    The generated method compares tuples of fields, which raises where a field is a tensor of more than one
    element. Generated code is compiled from a string, so its file name is "<string>".
    """
    if not dataclasses.is_dataclass(cls):
        return False
    code = getattr(cls.__eq__, "__code__", None)
    return code is not None and code.co_filename == "<string>"


def _plain(number: Any) -> Any:
    """``number`` as a Python number, because numpy's fixed widths overflow with a warning."""
    item = getattr(number, "item", None)
    return number if item is None else item()


def _isnan(number: Any) -> bool:
    return not isinstance(number, int) and cmath.isnan(number)


def _distance(x: Any, y: Any) -> float:
    try:
        return float(abs(x - y))
    except OverflowError:
        return math.inf


def _magnitude(number: Any) -> float:
    try:
        return float(abs(number))
    except OverflowError:
        return math.inf


def _number_message(x: Any, y: Any, apart: float, allowed: float, rtol: float, atol: float) -> str:
    if rtol == atol == 0:
        return f"Scalars are not equal!\n\nExpected {y!r} but got {x!r}."
    return (
        f"Scalars are not close!\n\nExpected {y!r} but got {x!r}: they are {apart!r} apart, "
        f"and {allowed!r} is allowed (atol {atol!r} + rtol {rtol!r} * |expected|)."
    )


def _surplus(x: Sequence[Any], y: Sequence[Any]) -> str:
    """Names the first element that only the longer sequence has, in one short line."""
    shorter = min(len(x), len(y))
    longer, which = (x, "first") if len(x) > len(y) else (y, "second")
    text = repr(longer[shorter])
    # A tensor's repr may fill a screen; its length already says what is wrong.
    return f" Only the {which} has [{shorter}]: {text}" if len(text) <= 80 and "\n" not in text else ""
