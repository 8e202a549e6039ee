"""``quick_key``: reads the arguments of a method of ``ProcessGroup`` as far as it takes to tell calls apart.

It is asked at every call, before that starts. Most calls have one of few forms, which are read straight away.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any

from harness.communication.arguments import KINDS, REDUCING, ROOTED, WITHOUT_TENSORS, is_tensor
from harness.communication.reduce_operations import last, number_in

_Key = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Hashable, ...], bool]]
# The options of operations that are most often given a list of one tensor and these.
_OF_ONE = {"all_reduce": "AllreduceOptions", "broadcast": "BroadcastOptions", "reduce": "ReduceOptions"}
# The same of those that are given an output, an input, perhaps split sizes, and these.
_OF_PAIRS = {
    "all_gather_into_tensor": "AllgatherOptions",
    "reduce_scatter_tensor": "ReduceScatterOptions",
    "all_to_all_single": "AllToAllOptions",
}
# The same of those that are given a list of outputs, one of inputs, and these.
_OF_LISTS = {
    "all_gather": "AllgatherOptions",
    "reduce_scatter": "ReduceScatterOptions",
    "gather": "GatherOptions",
    "scatter": "ScatterOptions",
    "all_to_all": "AllToAllOptions",
}
_LISTED_OUTPUTS = frozenset({"all_gather", "gather"})
_LISTED_INPUTS = frozenset({"reduce_scatter", "scatter"})
# What of a tensor tells calls apart.
_told = attrgetter("dtype", "shape", "__class__")
_PLAIN = frozenset({int, bool, str, timedelta, type(None)})


def quick_key(operation: str) -> _Key:
    """A function that reads the arguments of a method no further than it needs to tell calls apart.

    It returns a key, which two calls have in common only if they are of the same operation and are given the
    same, and whether the caller gets a work handle that it has to wait for.
    """
    other = _any_key(operation)
    if operation in _OF_ONE:
        return _key_of_one(operation, other)
    if operation in _OF_PAIRS:
        return _key_of_pair(operation, other)
    if operation in _OF_LISTS:
        return _key_of_lists(operation, other)
    return _key_of_barrier(other) if operation == "barrier" else other


def _options(name: str) -> Any:
    return getattr(sys.modules["torch._C._distributed_c10d"], name)


def _key_of_one(operation: str, other: _Key) -> _Key:
    """The key of a call with a list of one tensor."""
    plain = _options(_OF_ONE[operation])
    reduces, rooted = operation in REDUCING, operation in ROOTED

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], bool]:
        if len(args) != 2:
            return other(args, kwargs)
        tensors, options = args
        if type(options) is not plain or len(tensors) != 1:
            return other(args, kwargs)
        (tensor,) = tensors
        number: int = -1
        root: int = -1
        if reduces:
            of, number = last.given  # as in number_in, without the price of another call
            if of is not options:
                number = number_in(options)
        if rooted:
            root = options.rootRank
        return (operation, _told(tensor), number, root), options.asyncOp

    return key


def _key_of_pair(operation: str, other: _Key) -> _Key:
    """The key of a call with one output and one input."""
    plain = _options(_OF_PAIRS[operation])
    reduces = operation in REDUCING

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], bool]:
        if type(args[-1] if args else None) is not plain:
            return other(args, kwargs)
        splits: Any = ()
        if len(args) == 3:
            output, given, options = args
        elif len(args) == 5:
            output, given, received, sent, options = args
            if received or sent:
                splits = (*received, None, *sent)
        else:
            return other(args, kwargs)
        number = number_in(options) if reduces else -1
        try:
            return (operation, _told(output), _told(given), number, splits), options.asyncOp
        except AttributeError:  # one is no tensor
            return other(args, kwargs)

    return key


def _key_of_lists(operation: str, other: _Key) -> _Key:
    """The key of a call with two lists of tensors."""
    plain = _options(_OF_LISTS[operation])
    reduces, rooted = operation in REDUCING, operation in ROOTED
    # Which of them is a list of one list, or of none.
    outputs_listed, inputs_listed = operation in _LISTED_OUTPUTS, operation in _LISTED_INPUTS

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], bool]:
        if len(args) != 3 or type(args[2]) is not plain:
            return other(args, kwargs)
        outputs, inputs, options = args
        number = options.rootRank if rooted else number_in(options) if reduces else -1
        try:
            if outputs_listed and outputs:
                (outputs,) = outputs
            if inputs_listed and inputs:
                (inputs,) = inputs
            told = (operation, number, *map(_told, outputs), None, *map(_told, inputs))
        except (AttributeError, ValueError):  # lists of several lists
            return other(args, kwargs)
        return told, options.asyncOp

    return key


def _key_of_barrier(other: _Key) -> _Key:
    plain = _options("BarrierOptions")

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], bool]:
        options: Any = kwargs.get("opts")
        if args or type(options) is not plain:
            return other(args, kwargs)
        return ("barrier", options.timeout), options.asyncOp

    return key


def _any_key(operation: str) -> _Key:
    reduces, rooted, timed = operation in REDUCING, operation in ROOTED, operation in WITHOUT_TENSORS
    message = operation in KINDS

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Hashable, ...], bool]:
        found: list[Any] = [operation]
        own_work = message
        for given in (*args, *kwargs.values()) if kwargs else args:
            kind = type(given)
            if kind is list or kind is tuple:
                _add_tensors(found, given)
            elif kind in _PLAIN:
                found.append(given)
            elif is_tensor(kind):
                found += (given.dtype, given.shape, kind)
            else:  # the options, or an operation in their place
                own_work = getattr(given, "asyncOp", own_work)
                if reduces:
                    found.append(number_in(given))
                elif timed:
                    found.append(getattr(given, "timeout", None))
                if rooted:
                    found.append(getattr(given, "rootRank", None))
        return tuple(found), own_work

    return key


def _add_tensors(found: list[Any], given: Sequence[Any]) -> None:
    found.append(len(given))
    for each in given:
        kind = type(each)
        if kind is list or kind is tuple:
            _add_tensors(found, each)
        elif kind is int:
            found.append(each)
        else:
            found += (each.dtype, each.shape, kind)
