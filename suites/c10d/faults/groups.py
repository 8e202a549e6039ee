"""Faults of what Python does on top of the operators: handles, objects, groups and their numbers."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from suites.planting import replacing

C10D = "torch.distributed.distributed_c10d"
WORK = "torch._C._distributed_c10d:Work"
GROUP = "torch._C._distributed_c10d:ProcessGroup"


def both(name):
    """Return the two names that a function of ``torch.distributed`` is called by."""
    return f"{C10D}:{name}", f"torch.distributed:{name}"


# -- handles


def _do_not_wait(original, work, *_):
    return True


def _say_yes(original, work):
    return True


_is_completed = dist.Work.is_completed


def _is_under_way(work):
    return not _is_completed(work)


# -- objects


def _rotate_in_place(original, outputs, *args, **kwargs):
    original(outputs, *args, **kwargs)
    outputs[:] = [*outputs[1:], *outputs[:1]]


def _rotate_gathered(original, mine, outputs=None, *args, **kwargs):
    original(mine, outputs, *args, **kwargs)
    if outputs is not None:
        outputs[:] = [*outputs[1:], *outputs[:1]]


def _keep_own(original, objects, *args, **kwargs):
    original(list(objects), *args, **kwargs)


def _scatter_rotated(original, output, inputs=None, *args, **kwargs):
    shifted = [*inputs[1:], *inputs[:1]] if inputs else inputs
    return original(output, shifted, *args, **kwargs)


def _receive_nothing(original, objects, *args, **kwargs):
    return original(list(objects), *args, **kwargs)


# -- groups


def _identity(original, group, rank):
    original(group, rank)
    return rank


def _in_reverse(original, group=None):
    return original(group)[::-1]


def _without_the_last(original, ranks=None, *args, **kwargs):
    return original(ranks[:-1], *args, **kwargs)


def _has_three(ranks=None, *_, **__):
    return ranks is not None and len(ranks) > 2


def _group_rank_differs(group, rank):
    """Whether a global rank is in the group, under another number."""
    return c10d._world.pg_group_ranks.get(group, {}).get(rank, rank) != rank


def _global_rank_differs(group, rank):
    """Whether a group rank is there, under another number in the world."""
    ranks = c10d._world.pg_group_ranks.get(group, {})
    return any(inside == rank != outside for outside, inside in ranks.items())


def _has_several(group=None):
    return dist.get_world_size(group) > 1


def _zero(original, *_):
    return 0


_sequence_number = dist.ProcessGroup._get_sequence_number_for_group


def _has_counted(group):
    return _sequence_number(group) > 0


def _fall_back(original, fallback=None):
    return fallback


def _say_nothing(original, *args, **kwargs):
    return None


def _drop_the_tags(original, operations):
    for operation in operations:
        if operation.op is dist.isend:
            operation.tag = 0
    return original(operations)


def _has_tags(operations):
    return isinstance(operations, list) and any(getattr(each, "tag", 0) for each in operations)


def _among_several(*args, group=None, **_):
    return dist.is_initialized() and dist.get_world_size(group) > 1


def _first_tensors(original, group, outputs, inputs, *args):
    return original(group, outputs[:-1], inputs[:-1], *args)


def _several_tensors(group, outputs, *_):
    return len(outputs) > 1


HANDLES = (
    replacing("wait_is_a_no_op", "Work.wait returns at once", f"{WORK}.wait", _do_not_wait),
    replacing(
        "work_is_always_completed", "is_completed says yes", f"{WORK}.is_completed", _say_yes, _is_under_way
    ),
)
OBJECTS = (
    replacing(
        "all_gather_object_swaps",
        "objects one place off",
        both("all_gather_object"),
        _rotate_in_place,
        _among_several,
    ),
    replacing(
        "gather_object_swaps",
        "objects one place off",
        both("gather_object"),
        _rotate_gathered,
        _among_several,
    ),
    replacing(
        "broadcast_object_list_keeps",
        "all keep theirs",
        both("broadcast_object_list"),
        _keep_own,
        _among_several,
    ),
    replacing(
        "scatter_object_list_shifts",
        "objects one rank off",
        both("scatter_object_list"),
        _scatter_rotated,
        _among_several,
    ),
    replacing("recv_object_list_keeps", "nothing is received", both("recv_object_list"), _receive_nothing),
)
GROUPS = (
    replacing(
        "group_rank_is_global",
        "get_group_rank gives the global",
        both("get_group_rank"),
        _identity,
        _group_rank_differs,
    ),
    replacing(
        "global_rank_is_the_groups",
        "get_global_rank gives the group's",
        both("get_global_rank"),
        _identity,
        _global_rank_differs,
    ),
    replacing(
        "group_ranks_are_reversed",
        "get_process_group_ranks in reverse",
        both("get_process_group_ranks"),
        _in_reverse,
        _has_several,
    ),
    replacing(
        "new_group_loses_a_rank", "the last is left out", both("new_group"), _without_the_last, _has_three
    ),
    replacing(
        "groups_do_not_count",
        "the sequence number stays 0",
        f"{GROUP}._get_sequence_number_for_group",
        _zero,
        _has_counted,
    ),
    replacing("local_rank_falls_back", "LOCAL_RANK is not heeded", both("get_node_local_rank"), _fall_back),
    replacing(
        "outsiders_are_not_warned", "no warning for ranks outside", f"{C10D}:_warn_not_in_group", _say_nothing
    ),
    replacing(
        "batches_lose_tags",
        "batch_isend_irecv sends by tag 0",
        both("batch_isend_irecv"),
        _drop_the_tags,
        _has_tags,
    ),
    replacing(
        "all_gather_into_tensor_coalesced_drops_the_last",
        "the last tensor is left out",
        f"{GROUP}.allgather_into_tensor_coalesced",
        _first_tensors,
        _several_tensors,
    ),
    replacing(
        "reduce_scatter_tensor_coalesced_drops_the_last",
        "the last tensor is left out",
        f"{GROUP}.reduce_scatter_tensor_coalesced",
        _first_tensors,
        _several_tensors,
    ),
)
