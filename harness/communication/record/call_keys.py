"""``quick_key``: reads the arguments of a method of ``ProcessGroup`` as far as it takes to tell calls apart.

It is asked at every call, before that starts. Most calls have one of few forms, which are read straight away.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from datetime import timedelta
from typing import Any

from harness.communication.record.arguments import KINDS, REDUCING, ROOTED, WITHOUT_TENSORS, is_tensor
from harness.communication.record.reduce_operations import last, number_in

# A key, all of which has a hash, and whether the caller gets a work handle that it has to wait for.
_Told = tuple[tuple[Any, ...], bool]
_Key = Callable[[tuple[Any, ...], dict[str, Any]], _Told]
# Operations that are most often given a list of one tensor, and options.
_OF_ONE = frozenset({"all_reduce", "broadcast", "reduce"})
# Those that are given an output, an input, and options.
_OF_PAIRS = frozenset({"all_gather_into_tensor", "reduce_scatter_tensor"})
# Those that are given a list of one output, a list of one list of inputs, and options: ``gather`` in reverse.
_SCATTERING = frozenset({"reduce_scatter", "scatter"})
_PLAIN = frozenset({int, bool, str, timedelta, type(None)})


def quick_key(operation: str) -> _Key:
    """A function that reads the arguments of a method no further than it needs to tell calls apart.

    It returns a key, which two calls have in common only if their signatures are the same, and whether the
    caller gets a work handle that it has to wait for. Of outputs no more is read than a signature tells.
    """
    other = _any_key(operation)
    if operation in _OF_ONE:
        return _key_of_one(operation, other)
    if operation in _OF_PAIRS:
        return _key_of_pair(operation, other)
    if operation == "all_gather":
        return _key_of_gathered(operation, other)
    if operation == "gather" or operation in _SCATTERING:
        return _key_of_lists(operation, other)
    if operation == "all_to_all_single":
        return _key_of_split(operation, other)
    return _key_of_barrier(other) if operation == "barrier" else other


# None has a key like one of ``_any_key``'s, which begin with the operation and what is no tuple.
#
# Each of these functions expects one form of arguments, and learns by an exception that it is another one. It
# reads the options first: in forms without them a tensor may stand where a list is expected here, and torch
# applies an operator to one that is taken apart.


def _key_of_one(operation: str, other: _Key) -> _Key:
    """The key of a call with a list of one tensor."""
    reduces, rooted = operation in REDUCING, operation in ROOTED

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Told:
        try:
            tensors, options = args
            own_work = options.asyncOp
            (tensor,) = tensors
            number = root = -1
            if reduces:
                of, number = last.given  # as in number_in, without the price of another call
                if of is not options:
                    number = number_in(options)
            if rooted:
                root = options.rootRank
            return (number, root, operation, tensor.dtype, tensor.shape, type(tensor)), own_work
        except (AttributeError, ValueError):
            return other(args, kwargs)

    return key


def _key_of_pair(operation: str, other: _Key) -> _Key:
    """The key of a call with one output, which follows from the input, and one input."""
    reduces = operation in REDUCING

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Told:
        try:
            _, given, options = args
            own_work = options.asyncOp
            number = number_in(options) if reduces else -1
            return (number, operation, given.dtype, given.shape, type(given)), own_work
        except (AttributeError, ValueError):
            return other(args, kwargs)

    return key


def _key_of_split(operation: str, other: _Key) -> _Key:
    """The key of a call with one output, one input, and two lists of how these are split."""

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Told:
        try:
            output, given, received, sent, options = args
            own_work = options.asyncOp
            splits = (*received, None, *sent) if received or sent else ()
            told = (output.dtype, output.shape, type(output), given.dtype, given.shape, type(given))
            return (operation, told, splits), own_work
        except (AttributeError, ValueError):
            return other(args, kwargs)

    return key


def _key_of_gathered(operation: str, other: _Key) -> _Key:
    """The key of a call with a list of one list of outputs, and a list of one input."""
    elements = _elements()

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Told:
        try:
            outputs, inputs, options = args
            own_work = options.asyncOp
            (many,), (given,) = outputs, inputs
            told = (None, operation, given.dtype, given.shape, type(given), *map(elements, many))
            return told, own_work
        except (AttributeError, TypeError, ValueError):
            return other(args, kwargs)

    return key


def _key_of_lists(operation: str, other: _Key) -> _Key:
    """The key of a call with a list of one tensor, and with a list of one list of tensors, or of none."""
    gathers, reduces, rooted = operation == "gather", operation in REDUCING, operation in ROOTED
    elements = _elements()

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Told:
        try:
            outputs, inputs, options = args
            own_work = options.asyncOp
            (one,), listed = (inputs, outputs) if gathers else (outputs, inputs)
            (many,) = listed or ((),)
            number = options.rootRank if rooted else number_in(options) if reduces else -1
            if gathers:
                each: list[Hashable] = [*map(elements, many)]
            else:
                each = [(tensor.dtype, tensor.shape, type(tensor)) for tensor in many]
            return (operation, number, one.dtype, one.shape, type(one), *each), own_work
        except (AttributeError, TypeError, ValueError):
            return other(args, kwargs)

    return key


def _elements() -> Callable[[Any], int]:
    """The number of a tensor's elements: all that a signature tells of outputs, quicker than their shapes."""
    return sys.modules["torch"].Tensor.numel  # type: ignore[no-any-return]  # torch is not followed


def _key_of_barrier(other: _Key) -> _Key:
    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Told:
        try:
            options = kwargs["opts"]
            return ("barrier", options.timeout), options.asyncOp
        except (AttributeError, KeyError):
            return other(args, kwargs)

    return key


def _any_key(operation: str) -> _Key:
    reduces, rooted, timed = operation in REDUCING, operation in ROOTED, operation in WITHOUT_TENSORS
    message = operation in KINDS

    def key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Told:
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
