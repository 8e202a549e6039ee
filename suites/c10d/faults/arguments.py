"""What the collectives' operators are given: who is in the group, what moves, and what faults concern."""

from __future__ import annotations

import torch

from suites.c10d.inputs import DTYPES_OF_OP, EVERYTHING
from suites.kernels import done, operation, size_of, unboxed


def is_last(group):
    return unboxed(group).rank() == size_of(group) - 1


def rotated(parts):
    return [*parts[1:], *parts[:1]]


def flat(tensors):
    """Return the tensors of a tensor, a list, or a list of lists."""
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [tensor for part in tensors for tensor in flat(part)]


def moves(position, dtypes=EVERYTHING):
    """Return a condition: the group, the argument at ``position``, has several ranks, and gloo moves what is
    given before it. Other dtypes it refuses, some only when they are waited for.
    """

    def concerned(*args):
        given = flat([flat(each) for each in args[:position]])
        return size_of(args[position]) > 1 and all(tensor.dtype in dtypes for tensor in given)

    return concerned


def reduces(position):
    """Return the same condition for a reduction, whose operation follows the group."""

    def concerned(*args):
        defined = DTYPES_OF_OP.get(operation(args[position + 1]).name.lower(), ())
        return moves(position, defined)(*args) and something(flat([flat(each) for each in args[:position]]))

    return concerned


def something(tensors):
    """Tell whether any of the tensors has an element."""
    return any(tensor.numel() for tensor in tensors)


def keep_own(original, tensors, *_):
    """Be an operator that leaves all tensors as they are."""
    return tensors, done(tensors)


def rotate_input_lists(original, outputs, inputs, *rest):
    """Be an operator that takes the next one's part for each."""
    return original(outputs, [rotated(parts) for parts in inputs], *rest)
