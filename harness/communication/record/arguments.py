"""``Arguments``: what a communication call was given, read from the forms that its arguments have in torch.

Python calls methods of ``ProcessGroup`` with an options object; operators of the namespaces ``c10d`` and
``_c10d_functional`` have named arguments. Both become the same value, of which ``signatures.py`` makes what
ranks compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from harness.communication.record.reduce_operations import number_of
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
WITHOUT_TENSORS = frozenset({"barrier", "monitored_barrier"})
REDUCING = frozenset(
    {"all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter"}
    | {"reduce_scatter_tensor", "reduce_scatter_tensor_coalesced"}
)
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})


class Arguments(NamedTuple):
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
    if operation in WITHOUT_TENSORS:
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
        () if operation in WITHOUT_TENSORS else _flat(inputs),
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
    found: list[Any] = []
    for each in tensors:
        if isinstance(each, list | tuple):
            found += _flat(each)
        else:
            found.append(each)
    return tuple(found)


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
        elif known.get(kind) or is_tensor(kind):
            found.append(each)
    return found


def is_tensor(kind: type) -> bool:
    """Whether objects of a type are tensors."""
    known = _TENSORS.get(kind)
    return known if known is not None else _TENSORS.setdefault(kind, hasattr(kind, "shape"))


_TENSORS: dict[type, bool] = {}  # by type


def are_real(arguments: Arguments) -> bool:
    """Whether a call is given tensors with data, and is not merely traced with stand-ins for them."""
    for tensor in (*arguments.inputs, *arguments.outputs):  # any() would run a generator at first calls
        if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
            return False
    return True


def key_of(operation: str, arguments: Arguments) -> tuple[Any, ...]:
    """A hashable key: calls in a group with the same key have the same signature."""
    a = arguments
    shapes = tuple((t.dtype, t.shape) for t in (*a.inputs, *a.outputs))
    numbers = (len(a.inputs), a.root, a.peer, a.tag, a.sent, a.received, a.timeout_s)
    return (operation, shapes, numbers, number_of(a.reduce_op))
