"""``Arguments``: what a communication call was given, read from the forms that its arguments have in torch.

Python calls methods of ``ProcessGroup`` with an options object; operators of the namespaces ``c10d`` and
``_c10d_functional`` have named arguments. Both become the same value, of which ``signatures.py`` makes what
ranks compare.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from harness.communication.reduce_operations import last, number_in, number_of
from harness.communication_call import Kind

# The public name of each operation, by ProcessGroup's method. torch 2.13's Python code calls methods with
# "single" in their names; earlier versions call the older names, which 2.13 still has.
METHODS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather_coalesced",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "all_gather_single_coalesced": "all_gather_into_tensor_coalesced",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv",
    "barrier": "barrier",
    "monitored_barrier": "monitored_barrier",
}

# The same by operator of the namespace ``c10d``, of those that DDP's reducer and its kin call in C++.
OPERATORS = {"allreduce_": "all_reduce", "allgather_": "all_gather", "broadcast_": "broadcast"}

# The same by functional operator of the namespace ``_c10d_functional``, without "_" and "_out" at its end.
FUNCTIONAL = {
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce_coalesced",
    "all_gather_into_tensor": "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "all_to_all_single",
    "broadcast": "broadcast",
    "isend": "send",
    "irecv": "recv",
}

KINDS = {"send": Kind.SEND, "recv": Kind.RECEIVE}
# Collectives that write their results to their inputs.
IN_PLACE = frozenset({"all_reduce", "all_reduce_coalesced", "reduce", "broadcast"})
_WITHOUT_TENSORS = frozenset({"barrier", "monitored_barrier"})
REDUCING = frozenset(
    {"all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter"}
    | {"reduce_scatter_tensor", "reduce_scatter_tensor_coalesced"}
)
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's tensors and numbers. Ranks in ``root`` and ``peer`` are those within the group.

    ``outputs`` is () where the operation writes to its inputs. ``timeout_s`` is None for the group's own.
    """

    inputs: tuple[Any, ...] = ()
    outputs: tuple[Any, ...] = ()
    reduce_op: Any = None
    root: int | None = None
    peer: int | None = None
    tag: int = 0
    sent: tuple[int, ...] = ()  # split sizes in rows
    received: tuple[int, ...] = ()
    own_work: bool = False
    timeout_s: float | None = None


def of_method(operation: str, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments of a call of ProcessGroup's method."""
    options = kwargs.get("opts")
    plain = list(args)
    if options is None and plain and type(plain[-1]).__name__.endswith("Options"):
        options = plain.pop()
    own_work = bool(getattr(options, "asyncOp", False))
    reduce_op, root = getattr(options, "reduceOp", None), getattr(options, "rootRank", None)
    if operation in _WITHOUT_TENSORS:
        given = plain[0] if plain else kwargs.get("timeout")
        timeout = given if operation == "monitored_barrier" else getattr(options, "timeout", None)
        return Arguments(own_work=own_work, timeout_s=_seconds(timeout))
    if operation in KINDS:
        return _message(operation, method, plain, kwargs)
    if operation in IN_PLACE:
        inputs = plain[0] if plain else kwargs.get("tensors", kwargs.get("tensor", ()))
        if options is None and len(plain) > 1:
            reduce_op, root = (None, plain[1]) if operation == "broadcast" else (plain[1], None)
        if options is None and "root" in kwargs:
            root = kwargs["root"]
        return Arguments(_flat(inputs), (), reduce_op, root, own_work=own_work)
    outputs, inputs = (*plain[:2], (), ())[:2]
    if options is None and operation == "gather" and "root" in kwargs:
        root = kwargs["root"]
    splits = [tuple(split) for split in plain[2:4]] if operation == "all_to_all_single" else []
    received, sent = (*splits, (), ())[:2]
    return Arguments(
        _flat(inputs), _flat(outputs), reduce_op, root, sent=sent, received=received, own_work=own_work
    )


def _message(operation: str, method: str, plain: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    tensors = _flat(plain[0] if plain else kwargs.get("tensors", ()))
    others = [*plain[1:], *(kwargs[name] for name in ("dstRank", "srcRank", "tag") if name in kwargs)]
    peer = None if method == "recv_anysource" else int(others.pop(0))
    return Arguments(tensors, (), peer=peer, tag=int(others[0]) if others else 0, own_work=True)


def of_operator(operation: str, given: Mapping[str, Any]) -> Arguments:
    """The arguments of a call of an operator, by their names in its schema."""
    inputs = next((given[name] for name in _INPUTS if name in given), ())
    outputs = next((given[name] for name in _OUTPUTS if name in given), ())
    milliseconds = given.get("timeout", -1)
    return Arguments(
        () if operation in _WITHOUT_TENSORS else _flat(inputs),
        _flat(outputs),
        given.get("reduce_op"),
        given.get("root_rank", given.get("src") if operation == "broadcast" else None),
        given.get("dst", given.get("src")) if operation in KINDS else None,
        given.get("tag", 0),
        tuple(given.get("input_split_sizes", ())),
        tuple(given.get("output_split_sizes", ())),
        operation in KINDS,
        milliseconds / 1000 if milliseconds > 0 else None,
    )


_INPUTS = ("tensors", "tensor", "input_tensors", "input_tensor", "inputs", "input", "input_list")
_OUTPUTS = ("output_tensors", "output_tensor", "outputs", "output", "output_lists")


def _flat(tensors: Any) -> tuple[Any, ...]:
    """The tensors of a tensor, of a list of them, or of a list of lists, in order."""
    if not isinstance(tensors, list | tuple):
        return (tensors,)
    if any(isinstance(each, list | tuple) for each in tensors):
        return tuple(tensor for each in tensors for tensor in _flat(each))
    return tuple(tensors)


def _seconds(timeout: Any) -> float | None:
    if not isinstance(timeout, timedelta) or timeout.total_seconds() <= 0:
        return None
    return timeout.total_seconds()


def tensors_in(given: Sequence[Any]) -> list[Any]:
    """The tensors among what a call is given, those in lists as well."""
    found: list[Any] = []
    known = _TENSORS
    for each in given:
        kind = type(each)
        if kind is list or kind is tuple:
            if len(each) == 1 and known.get(type(each[0])):  # the usual case
                found.append(each[0])
            else:
                found += tensors_in(each)
        elif known.get(kind) or _is_tensor(kind):
            found.append(each)
    return found


def _is_tensor(kind: type) -> bool:
    known = _TENSORS.get(kind)
    return known if known is not None else _TENSORS.setdefault(kind, hasattr(kind, "shape"))


_TENSORS: dict[type, bool] = {}  # by type


def are_real(arguments: Arguments) -> bool:
    """Whether a call is given tensors with data, and is not merely traced with stand-ins for them."""
    tensors = (*arguments.inputs, *arguments.outputs)
    return not any(t.is_meta or type(t).__name__ == "FakeTensor" for t in tensors)


_Key = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Hashable, ...], bool]]


def quick_key(operation: str) -> _Key:
    """A function that reads the arguments of a method no further than it needs to tell calls apart.

    It returns a key, which two calls have in common only if they are of the same operation and are given the
    same, and whether the caller gets a work handle that it has to wait for.
    """
    other = _any_key(operation)
    if operation == "all_reduce":
        return _all_reduce_key(other)
    if operation in _OPTIONS_OF_PAIRS:
        return _pair_key(operation, other)
    return other


# Operations that most often are given an output, an input and options, by the name of the latter.
_OPTIONS_OF_PAIRS = {
    "all_gather_into_tensor": "AllgatherOptions",
    "reduce_scatter_tensor": "ReduceScatterOptions",
}


def _all_reduce_key(other: _Key) -> _Key:
    """The key of the most frequent call, read in half the time."""
    plain: Any = sys.modules["torch.distributed"].AllreduceOptions

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], bool]:
        if len(args) != 2 or type(args[1]) is not plain or len(args[0]) != 1:
            return other(args, kwargs)
        ((tensor,), options) = args
        of, number = last.given  # as in number_in, without the price of another call
        if of is not options:
            number = number_in(options)
        told: Any = ("all_reduce", tensor.dtype, tensor.shape, type(tensor), number)
        return told, options.asyncOp

    return key


def _pair_key(operation: str, other: _Key) -> _Key:
    """The key of a call with one output and one input, read in less time."""
    plain: Any = getattr(sys.modules["torch._C._distributed_c10d"], _OPTIONS_OF_PAIRS[operation])
    tensor: Any = sys.modules["torch"].Tensor
    reduces = operation in REDUCING

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], bool]:
        if len(args) != 3 or type(args[2]) is not plain:
            return other(args, kwargs)
        output, given, options = args
        if type(output) is not tensor or type(given) is not tensor:
            return other(args, kwargs)
        number = number_in(options) if reduces else 0
        told = (operation, output.dtype, output.shape, given.dtype, given.shape, number)
        return told, options.asyncOp

    return key


def _any_key(operation: str) -> _Key:
    reduces, rooted, timed = operation in REDUCING, operation in ROOTED, operation in _WITHOUT_TENSORS
    message = operation in KINDS

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], bool]:
        found: list[Hashable] = [operation]
        own_work = message
        for given in (*args, *kwargs.values()) if kwargs else args:
            kind = type(given)
            if kind is list or kind is tuple:
                _add_tensors(found, given)
            elif kind in _PLAIN:
                found.append(given)
            elif _is_tensor(kind):
                found.append((given.dtype, given.shape, kind))
            else:  # the options, or an operation in their place
                own_work = getattr(given, "asyncOp", own_work)
                if reduces:
                    found.append(number_in(given))
                elif rooted:
                    found.append(getattr(given, "rootRank", None))
                elif timed:
                    found.append(getattr(given, "timeout", None))
                if reduces and rooted:
                    found.append(getattr(given, "rootRank", None))
        return tuple(found), own_work

    return key


_PLAIN = frozenset({int, bool, str, timedelta, type(None)})


def _add_tensors(found: list[Hashable], given: Sequence[Any]) -> None:
    found.append(len(given))
    for each in given:
        kind = type(each)
        if kind is list or kind is tuple:
            _add_tensors(found, each)
        elif kind is int:
            found.append(each)
        else:
            found.append((each.dtype, each.shape, kind))


def key_of(operation: str, arguments: Arguments) -> tuple[Any, ...]:
    """A hashable key: calls in a group with the same key have the same signature."""
    a = arguments
    shapes = tuple((t.dtype, t.shape) for t in (*a.inputs, *a.outputs))
    numbers = (len(a.inputs), a.root, a.peer, a.tag, a.sent, a.received, a.timeout_s)
    return (operation, shapes, numbers, number_of(a.reduce_op))
