"""Compares tensors and arrays with each other, with a number or with a sequence.

The verdict is that of ``torch.testing.assert_close``. A call of it takes a quarter of a millisecond, and most
of a second the first time that it finds a difference, so ordinary tensors of one shape and dtype are compared
without it.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from harness import tensor_difference
from harness.comparison import Comparison, Difference, Rules, is_array, is_number, is_sequence, is_tensor
from harness.tolerances import default_tolerances

if TYPE_CHECKING:
    from collections.abc import Sequence

__unittest = True  # For unittest, which then leaves this module's frames out of a failure's traceback.


def compare_arrays(whole: Comparison, x: Any, y: Any) -> Difference | None:
    """``TensorComparison.difference`` as the ``arrays`` of a ``Comparison``."""
    return TensorComparison(whole).difference(x, y)


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """The part of a ``Comparison`` for pairs of which at least one is a tensor or array."""

    whole: Comparison

    def difference(self, x: Any, y: Any) -> Difference | None:
        """The first difference between ``x`` and ``y``, None where they are equal.

        ValueError where a number is compared with a tensor that has not exactly one element; TypeError where
        a DTensor is compared with something else.
        """
        if _is_list_of_tensors(x) or _is_list_of_tensors(y):
            return self.whole.difference(*(t.unbind() if _is_list_of_tensors(t) else t for t in (x, y)))
        if is_array(x) and is_array(y):
            return self._arrays(x, y)
        array, other = (x, y) if is_array(x) else (y, x)
        if is_number(other):
            return self._with_number(x, y)
        if is_sequence(other):
            return self._with_sequence(array, other, swapped=array is y)
        # An object like unittest.mock.ANY equals anything. An elementwise answer is not True.
        if (x == y) is True:
            return None
        return Difference(f"{_described(x)} != {_described(y)}")

    def _arrays(self, x: Any, y: Any) -> Difference | None:
        a, b = _as_tensor(x), _as_tensor(y)
        if a is None or b is None:
            return self.whole.difference(x.tolist(), y.tolist())
        return self._tensors(a, b, self.whole.rules)

    def _with_number(self, x: Any, y: Any) -> Difference | None:
        """Compares a number with the array's one element by value; shape and dtype do not matter."""
        return self.whole.difference(
            _only_element(x) if is_array(x) else x, _only_element(y) if is_array(y) else y
        )

    def _with_sequence(self, array: Any, other: Sequence[Any], *, swapped: bool) -> Difference | None:
        """Compares an array with the tensor that the sequence describes, in the array's precision."""
        tensor = _as_tensor(array)
        spelled = None if tensor is None else _spelled(other, tensor)
        if tensor is not None and spelled is not None:
            rules = replace(self.whole.rules, exact_dtype=False)
            return self._tensors(*_ordered(tensor, spelled, swapped), rules)
        if array.ndim == 0:
            return Difference("{} != {}".format(*_ordered(_described(array), _described(other), swapped)))
        elements = [array[index] for index in range(len(array))]
        return self.whole.sequences(*_ordered(elements, other, swapped))

    def _tensors(self, x: torch.Tensor, y: torch.Tensor, rules: Rules) -> Difference | None:
        if _is_dtensor(x) or _is_dtensor(y):
            return self._dtensors(x, y, rules)
        if rules.exact_is_coalesced and _are_sparse(x, y) and x.is_coalesced() != y.is_coalesced():
            return Difference(f"is_coalesced() differs: {x.is_coalesced()} != {y.is_coalesced()}")
        rtol, atol = rules.tolerances(_tolerances_of(x.dtype, y.dtype))
        if _are_plain(x, y, rules) and (x.is_floating_point() or x.is_complex() or rtol == atol == 0):
            return _of_values(x, y, rtol, atol, equal_nan=rules.equal_nan)
        return _verdict(*_comparable(x, y, rules), rules, rtol, atol)

    def _dtensors(self, x: Any, y: Any, rules: Rules) -> Difference | None:
        if not (_is_dtensor(x) and _is_dtensor(y)):
            raise TypeError(
                "a DTensor was compared with something else: compare its full_tensor() with the whole, "
                "or its to_local() with this rank's shard"
            )
        if x.device_mesh != y.device_mesh:
            return Difference(f"The device meshes differ: {x.device_mesh} != {y.device_mesh}")
        if x.placements != y.placements:
            return Difference(f"The placements differ: {x.placements} != {y.placements}")
        if x.shape != y.shape:
            return Difference(f"The global shapes differ: {tuple(x.shape)} != {tuple(y.shape)}")
        found = self._tensors(x.to_local(), y.to_local(), rules)
        return found.under(".to_local()") if found is not None else None


def _verdict(x: torch.Tensor, y: torch.Tensor, rules: Rules, rtol: float, atol: float) -> Difference | None:
    try:
        torch.testing.assert_close(
            x,
            y,
            rtol=rtol,
            atol=atol,
            equal_nan=rules.equal_nan,
            check_dtype=rules.exact_dtype,
            check_device=rules.exact_device,
            check_layout=rules.exact_layout,
            check_stride=rules.exact_stride,
        )
    except AssertionError as error:
        return Difference(str(error))
    return None


def _comparable(x: torch.Tensor, y: torch.Tensor, rules: Rules) -> tuple[torch.Tensor, torch.Tensor]:
    """Both tensors as ``assert_close`` accepts them: sparse ones coalesced, of related classes."""
    if _are_sparse(x, y) and not rules.exact_is_coalesced:
        # Whether values of equal indices have been summed yet is only a matter of representation.
        x, y = x.coalesce(), y.coalesce()
    if not (isinstance(x, type(y)) or isinstance(y, type(x))):
        x, y = x.as_subclass(torch.Tensor), y.as_subclass(torch.Tensor)
    return x, y


def _are_plain(x: torch.Tensor, y: torch.Tensor, rules: Rules) -> bool:
    """Whether both are ordinary tensors that can differ only in values; if not, ``assert_close`` decides.

    Subclasses are left to ``assert_close``: they may run a collective in an operator, or record it.
    """
    if type(x) not in _plain_types() or type(y) not in _plain_types() or rules.exact_stride:
        return False
    if x.dtype not in _plain_dtypes() or x.dtype != y.dtype or x.shape != y.shape:
        return False
    return x.layout == y.layout == torch.strided and x.device == y.device and not x.is_meta


def _of_values(
    x: torch.Tensor, y: torch.Tensor, rtol: float, atol: float, *, equal_nan: bool
) -> Difference | None:
    if torch.equal(x, y) or torch.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan):
        return None
    return Difference(tensor_difference.described(x, y, rtol, atol, equal_nan=equal_nan))


def _as_tensor(value: Any) -> torch.Tensor | None:
    """``value`` as a tensor that shares its memory where possible; None for a dtype that torch lacks."""
    if is_tensor(value):
        return value
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    if not value.flags.writeable or any(stride < 0 for stride in value.strides):
        value = value.copy()
    try:
        return torch.from_numpy(value)
    except TypeError:
        return None


def _spelled(sequence: Sequence[Any], like: torch.Tensor) -> torch.Tensor | None:
    """The tensor that ``sequence`` describes, on ``like``'s device; None where it describes none.

    It gets ``like``'s dtype only where that changes no value: 1.5 stays unequal to an integer 1, and -1 to an
    unsigned 255.
    """
    items = [_spelled_item(item) for item in sequence]
    try:
        natural = torch.as_tensor(items, device=like.device)
        return torch.as_tensor(items, dtype=_lossless(natural.dtype, like.dtype), device=like.device)
    except (TypeError, ValueError, RuntimeError):
        return None


def _spelled_item(item: Any) -> Any:
    if is_tensor(item):
        return item.detach()
    return item.tolist() if is_array(item) else item


def _lossless(found: torch.dtype, wanted: torch.dtype) -> torch.dtype:
    inexact = wanted.is_floating_point or wanted.is_complex
    if inexact and torch.can_cast(found, wanted):
        return wanted
    if found.is_complex:
        return torch.complex128
    return torch.float64 if found.is_floating_point else found


def _only_element(array: Any) -> Any:
    shape = tuple(array.shape)
    count = array.numel() if is_tensor(array) else array.size
    if count != 1:
        raise ValueError(
            f"a number was compared with {count} elements (shape {shape}): "
            "compare with a tensor or list of that shape, or pick one element"
        )
    return array.item()


def _described(value: Any) -> str:
    """One line about ``value``: the shape and dtype of a tensor or array, else the repr."""
    if is_array(value):
        return f"{type(value).__name__} of shape {tuple(value.shape)} and dtype {value.dtype}"
    return repr(value)


def _ordered(first: Any, second: Any, swapped: bool) -> tuple[Any, Any]:
    return (second, first) if swapped else (first, second)


def _are_sparse(x: torch.Tensor, y: torch.Tensor) -> bool:
    return bool(x.layout == y.layout == torch.sparse_coo)


def _is_list_of_tensors(value: Any) -> bool:
    """Whether this is a strided nested tensor, which has few operators and is compared part by part."""
    return is_tensor(value) and bool(value.is_nested and value.layout == torch.strided)


def _is_dtensor(value: object) -> bool:
    # While nobody has imported the module, no value can be of its type.
    dtensor = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return dtensor is not None and isinstance(value, dtensor)


@functools.cache
def _tolerances_of(*dtypes: torch.dtype) -> tuple[float, float]:
    return default_tolerances(*(str(dtype).removeprefix("torch.") for dtype in dtypes))


@functools.cache
def _plain_types() -> frozenset[type]:
    return frozenset((torch.Tensor, torch.nn.Parameter))


@functools.cache
def _plain_dtypes() -> frozenset[torch.dtype]:
    """The dtypes that ``torch.equal`` and ``torch.allclose`` accept on every device."""
    names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    return frozenset(getattr(torch, name) for name in names.split())
