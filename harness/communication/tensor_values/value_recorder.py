"""``ValueRecorder``: keeps, in a rank, what each call is given before it and what it has given after it.

It exists under ``HARNESS_COMM_CHECK=values`` alone. What calls it is in ``taps.py``, and for threaded groups
in ``ranks/threads``. Tensors are read when the call begins, and when a wait for it has returned: before that
nobody may say what is in them.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from harness.communication.call_log import CallLog
from harness.communication.record.arguments import IN_PLACE, Arguments
from harness.communication.record.memory_use import Extent, UsedMemory, extents
from harness.communication.record.pending_calls import touches_versions
from harness.communication.tensor_values import values
from harness.communication.tensor_values.values import (
    NO_PLAIN_TENSOR,
    STRIDED,
    TOO_LARGE,
    WRITTEN,
    CallValues,
    Tensor,
)

# Bytes of a call's tensors, all together, up to which they are kept: more than tests use to find a fault, and
# a hundred such calls still fit a directory of temporary files.
MOST_OF_A_CALL = 16 * 2**20
# Bytes that a rank writes in a test.
MOST_OF_A_TEST = 512 * 2**20


class KeptCall:
    """A call that has begun and was not seen to end."""

    __slots__ = (
        *("hashes", "inputs", "number", "outputs", "outstanding", "read"),
        *("shared", "versioned", "versions", "written"),
    )

    def __init__(self, number: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.number = number
        self.inputs = inputs  # those that the call only reads
        self.outputs = outputs
        self.outstanding: set[int] = set()  # addresses of results that nobody has waited for
        self.hashes: list[int] = []  # of the inputs' bytes
        self.versioned = False  # whether a change of an output's version shows that the test has written it
        self.versions: list[int | None] = []  # of the outputs
        self.written: Sequence[Extent] = ()
        self.read: Sequence[Extent] = ()
        self.shared = False  # whether another call used its memory meanwhile


class ValueRecorder:
    """Writes one rank's values by ``append``; ``log`` is the log that has the calls' tokens."""

    def __init__(self, log: CallLog, append: Callable[[bytes], object]) -> None:
        self._log = log
        self._append = append
        self._numbers = itertools.count()
        self._written = 0
        self._works: dict[int, tuple[Any, KeptCall]] = {}  # by id of the work handle, which stays alive
        self._unseen: dict[int, KeptCall] = {}  # calls of C++, by address of a result

    # -- a call begins

    def began(
        self, token: int, operation: str, arguments: Arguments, *, functional: bool = False
    ) -> KeptCall | None:
        """Keeps what a call is given, right before it is made; None where there is nothing to keep.

        ``functional``: its results are not among what it is given, but come with ``fills``.
        """
        call = self._log.call(token)
        if call is None or not (arguments.inputs or arguments.outputs):
            return None
        in_place = not functional and (operation in IN_PLACE or operation == "recv")
        inputs = () if operation == "recv" else arguments.inputs
        outputs = arguments.inputs if in_place else arguments.outputs
        given, why_not = self._tensors(inputs, outputs)
        if not functional and not all(t.is_contiguous() for t in (*inputs, *outputs) if is_plain(t)):
            given, why_not = (), why_not or STRIDED  # backends take the memory as it is, whatever its strides
        kept = KeptCall(next(self._numbers), () if in_place else inputs, outputs)
        told = CallValues(call, operation, given, why_not=why_not, factor=_factor(arguments.reduce_op))
        self._write(values.begun(kept.number, told))
        if why_not:
            return None
        if in_place:
            kept.versioned = call.own_work and not touches_versions(operation, arguments)
        else:
            kept.hashes = [hash(tensor.data) for tensor in given]
            kept.read = extents(inputs)
        kept.written = extents(outputs)
        memory = UsedMemory()
        for key, (_, other) in self._works.items():
            memory.add(key, other.written, other.read)
        for key in memory.collisions(kept.written, kept.read):
            kept.shared = self._works[key][1].shared = True
        return kept

    def _tensors(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[tuple[Tensor, ...], str]:
        """What is kept of a call's inputs, and why nothing is, or ""."""
        if any(not is_plain(t) for t in (*inputs, *outputs)):
            return (), NO_PLAIN_TENSOR
        size = sum(int(t.numel()) * t.element_size() for t in (*inputs, *outputs))
        if size > MOST_OF_A_CALL or self._written + size > MOST_OF_A_TEST:
            return (), TOO_LARGE
        return tuple(map(tensor_of, inputs)), ""

    def _write(self, record: bytes) -> None:
        self._written += len(record)
        self._append(record)

    # -- it ends

    def returned(self, kept: KeptCall, work: Any) -> None:
        """A call has returned, which ends it unless there is a work handle."""
        if work is None:
            self.ended(kept)
            return
        if kept.versioned:
            kept.versions = [None if t.is_inference() else t._version for t in kept.outputs]
        self._works[id(work)] = (work, kept)

    def raised(self, kept: KeptCall) -> None:
        """A call, or the wait for it, has raised."""
        self._write(values.ended(kept.number, raised=True))

    def waited(self, work: Any, *, raised: bool = False) -> None:
        """A wait for a work handle has returned, or ``raised``."""
        found = self._works.pop(id(work), None)
        if found is not None:
            self.raised(found[1]) if raised else self.ended(found[1], work)

    def learnt_of(self, work: Any) -> None:
        """The test was told that a call is completed."""
        if id(work) in self._works and _succeeded(work):
            self.waited(work)

    def ended(self, kept: KeptCall, work: Any = None) -> None:
        """Keeps what a call has given, after its end."""
        if not all(map(is_plain, kept.outputs)):
            self._write(values.ended(kept.number, why_not=NO_PLAIN_TENSOR))
            return
        outputs = tuple(map(tensor_of, kept.outputs))
        why_not = WRITTEN if kept.shared or _rewritten(kept) else ""
        source = _source(work) if work is not None else None
        self._write(values.ended(kept.number, outputs, why_not=why_not, source=source))

    # -- calls whose work handles nobody sees

    def fills(self, kept: KeptCall, results: Any) -> None:
        """A call of C++ has begun to fill these tensors (one, or lists of them)."""
        kept.outputs = tuple(_flat(results))
        kept.outstanding = {_address(t) for t in kept.outputs if is_plain(t)}
        if any(is_plain(t) and _address(t) in kept.outstanding for t in kept.inputs):  # in place
            kept.inputs, kept.hashes = (), []
        for address in kept.outstanding:
            self._unseen[address] = kept

    def waited_for_tensor(self, address: int) -> None:
        """A wait for the call that fills the storage at this address has returned."""
        kept = self._unseen.pop(address, None)
        if kept is not None:
            kept.outstanding.discard(address)
            if not kept.outstanding:
                self.ended(kept)

    def left_cpp(self) -> None:
        """C++ has waited for all calls that it had started."""
        left = list(dict.fromkeys(self._unseen.values()))
        self._unseen.clear()
        for kept in left:
            self.ended(kept)


def is_plain(tensor: Any) -> bool:
    """Whether a tensor is strided, and has all of its elements in memory of its own."""
    torch = sys.modules["torch"]
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        return False
    if not tensor.numel():
        return True
    try:
        held = tensor.untyped_storage().nbytes()
        last = tensor.storage_offset() + _last(tensor)
        return bool(tensor.data_ptr() and (last + 1) * tensor.element_size() <= held)
    except RuntimeError:  # a subclass that has no storage
        return False


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _last(tensor: Any) -> int:
    """The offset of a tensor's last element in memory from its first."""
    return sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def tensor_of(tensor: Any) -> Tensor:
    """A plain tensor as a value. No operator runs for one in the processor's memory, so no mode sees it."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = tuple(int(size) for size in tensor.shape)
    if not tensor.numel():
        return Tensor(dtype, shape, b"")
    if tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
        tensor = _in_memory(tensor)
    size = tensor.element_size()
    memory = ctypes.string_at(tensor.data_ptr(), (_last(tensor) + 1) * size)
    if tensor.is_contiguous():
        return Tensor(dtype, shape, memory)
    strides = tuple(size * stride for stride in tensor.stride())
    elements = np.ndarray(shape, f"V{size}", memory, strides=strides)
    return Tensor(dtype, shape, elements.tobytes())


def _in_memory(tensor: Any) -> Any:
    """A copy in the processor's memory, made outside of all modes that the test may have set."""
    torch: Any = sys.modules["torch"]
    from torch.utils import _python_dispatch

    with torch.no_grad(), _python_dispatch._disable_current_modes():
        return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def _rewritten(kept: KeptCall) -> bool:
    """Whether what a call reads, or what it writes to, was written by somebody else before its end."""
    if any(before != hash(tensor_of(t).data) for t, before in zip(kept.inputs, kept.hashes, strict=True)):
        return True
    if not kept.versions:
        return False
    return any(
        before is not None and t._version != before
        for t, before in zip(kept.outputs, kept.versions, strict=True)
    )


def _factor(reduce_op: Any) -> float | None:
    """PREMUL_SUM's factor, where it is one number."""
    state = getattr(reduce_op, "__getstate__", None)
    if getattr(getattr(reduce_op, "op", reduce_op), "name", "") != "PREMUL_SUM" or state is None:
        return None
    factor = state()[1]
    return float(factor) if isinstance(factor, int | float) else None


def _source(work: Any) -> int | None:
    """The member whose message a work handle has received; None where the backend does not say."""
    with contextlib.suppress(RuntimeError, AttributeError, NotImplementedError):
        return int(work._source_rank())
    return None


def _succeeded(work: Any) -> bool:
    """Asks the work handle itself, without recording that it was asked."""
    kind = type(work)
    return bool(inspect.unwrap(kind.is_completed)(work) and inspect.unwrap(kind.is_success)(work))


def _flat(tensors: Any) -> Iterable[Any]:
    if isinstance(tensors, list | tuple):
        return [tensor for each in tensors for tensor in _flat(each)]
    return [tensors]
