"""Programs whose messages between two ranks wait in a cycle, are met by nobody, are lost or race."""

from __future__ import annotations

import torch
import torch.distributed as dist

from suites.selftest.communication.programs.program import KEPT, PROCESSES, Kind, Table

TABLE = Table()
bug = TABLE.bug


# -- a cycle of messages


@bug(
    4,
    Kind.DEADLOCKED,
    "ranks 0 -> 1 -> 2 -> 3 -> 0 wait for each other in recv",
    "{waits}",
)
def ring_that_receives_first(rank: int, world_size: int) -> None:
    """Every rank receives from the next one before it sends to the one before."""
    tensor = torch.ones(2)
    dist.recv(tensor, src=(rank + 1) % world_size)  # waits
    dist.send(tensor, dst=(rank - 1) % world_size)


@bug(2, Kind.DEADLOCKED, "ranks 0 -> 1 -> 0 wait for each other in recv", "{waits}", modes=PROCESSES)
def two_that_receive_first(rank: int, world_size: int) -> None:
    """Both ranks receive before they send."""
    mine, theirs = torch.ones(2), torch.zeros(2)
    dist.recv(theirs, src=1 - rank)  # waits
    dist.send(mine, dst=1 - rank)


@bug(3, Kind.DEADLOCKED, "ranks 0 -> 1 -> 2 -> 0 wait for each other in", "recv", "{waits} | {also}")
def ring_of_asynchronous_receives(rank: int, world_size: int) -> None:
    """Every rank waits for its asynchronous receive before it sends."""
    tensor = torch.zeros(2)
    work = dist.irecv(tensor, src=(rank + 1) % world_size)  # waits
    assert work is not None
    work.wait()  # also
    dist.send(tensor, dst=(rank - 1) % world_size)


@bug(2, Kind.DEADLOCKED, "ranks 0 -> 1 -> 0 wait for each other in send", "{waits}")
def sends_that_block(rank: int, world_size: int) -> None:
    """Both ranks send messages that no buffer takes before they receive."""
    mine, theirs = torch.ones(1 << 22), torch.zeros(1 << 22)
    dist.send(mine, dst=1 - rank)  # waits
    dist.recv(theirs, src=1 - rank)


@bug(
    4,
    Kind.DEADLOCKED,
    "wait for each other in recv",
    "rank 0 sends 4 messages to rank 1, which receives 2",
    "rank 1 sends 2 messages to rank 2, which receives 3",
)
def stage_with_fewer_microbatches(rank: int, world_size: int) -> None:
    """Ranks hand batches on, and gradients back in the end: rank 1 two, and the others four."""
    batches, works = 2 if rank == 1 else 4, []
    for _ in range(batches):
        if rank > 0:
            dist.recv(torch.zeros(2), src=rank - 1)  # also
        if rank < world_size - 1:
            works.append(dist.isend(torch.ones(2), dst=rank + 1))
    for _ in range(batches):
        if rank < world_size - 1:
            dist.recv(torch.zeros(2), src=rank + 1)
        if rank > 0:
            works.append(dist.isend(torch.ones(2), dst=rank - 1))
    for work in works:
        assert work is not None
        work.wait()


@bug(
    2,
    Kind.DEADLOCKED,
    "rank 0 left",
    "rank 0 sends 3 messages to rank 1, which receives 4",
    "{waits}",
    guilty=[0],
)
def message_too_few(rank: int, world_size: int) -> None:
    """Rank 0 sends three messages, and rank 1 expects four."""
    for _ in range(3 + rank):
        if rank == 0:
            dist.send(torch.ones(2), dst=1)
        else:
            dist.recv(torch.zeros(2), src=0)  # waits


@bug(3, Kind.DEADLOCKED, "0", "2", "recv", "barrier", "{waits}")
def message_against_barrier(rank: int, world_size: int) -> None:
    """Rank 0 sends after the barrier what rank 2 receives before it."""
    tensor = torch.ones(1)
    if rank == 2:
        dist.recv(tensor, src=0)  # waits
    dist.barrier()
    if rank == 0:
        dist.send(tensor, dst=2)


# -- a message to nobody


@bug(
    3,
    Kind.DEADLOCKED,
    "rank 0 sends to rank 2",
    "{guilty}",
    "rank 1 waits for a message of rank 0",
    "{waits}",
    guilty=[0],
    modes=KEPT,
)
def sends_to_the_wrong_rank(rank: int, world_size: int) -> None:
    """Rank 0 sends to rank 2 what rank 1 expects."""
    tensor = torch.ones(4)
    if rank == 0:
        dist.send(tensor, dst=2)  # guilty
    elif rank == 1:
        dist.recv(tensor, src=0)  # waits


@bug(
    2,
    Kind.DEADLOCKED,
    "rank 1 waits for a message of rank 0 in the default group",
    "{waits}",
    "rank 0 sends it one in group {{0, 1}} made at",
    "{guilty}",
    modes=KEPT,
)
def groups_of_a_message_differ(rank: int, world_size: int) -> None:
    """What rank 0 sends in a group of both rank 1 expects in the default group."""
    both, tensor = dist.new_group([0, 1]), torch.ones(4)
    if rank == 0:
        dist.send(tensor, dst=1, group=both)  # guilty
    else:
        dist.recv(tensor, src=0)  # waits


@bug(2, Kind.DEADLOCKED, "rank 0", "rank 1", "tag 7", "tag 8", "{guilty}", "{waits}", modes=KEPT)
def tags_differ(rank: int, world_size: int) -> None:
    """What rank 0 sends with tag 7 rank 1 expects with tag 8."""
    tensor = torch.ones(4)
    if rank == 0:
        dist.send(tensor, dst=1, tag=7)  # guilty
    else:
        dist.recv(tensor, src=0, tag=8)  # waits


@bug(
    3,
    Kind.DEADLOCKED,
    "rank 1 waits for a message of rank 2",
    "{waits}",
    "rank 0 sends it one",
    "{guilty}",
    guilty=[1],
)
def receives_from_the_wrong_rank(rank: int, world_size: int) -> None:
    """Rank 1 expects from rank 2 what rank 0 sends."""
    tensor = torch.ones(4)
    if rank == 0:
        dist.send(tensor, dst=1)  # guilty
    elif rank == 1:
        dist.recv(tensor, src=2)  # waits


@bug(
    4,
    Kind.DEADLOCKED,
    "rank 2 sends to rank 1",
    "which receives nothing from it",
    "rank 3 waits for a message of rank 2",
    "{guilty}",
    guilty=[2],
)
def batch_with_the_wrong_peer(rank: int, world_size: int) -> None:
    """In a ring, rank 2 sends to the rank before it in place of the next one."""
    following, before = (rank + 1) % world_size, (rank - 1) % world_size
    exchange = [
        dist.P2POp(dist.isend, torch.ones(2), before if rank == 2 else following),
        dist.P2POp(dist.irecv, torch.zeros(2), before),
    ]
    for work in dist.batch_isend_irecv(exchange):  # guilty
        work.wait()


@bug(
    4,
    Kind.DEADLOCKED,
    "rank 1 sends to rank 2",
    "{guilty}",
    "rank 3 waits for a message of rank 1",
    "{waits}",
    guilty=[1],
)
def group_rank_for_a_global_rank(rank: int, world_size: int) -> None:
    """Rank 1 sends to the third rank of a group by its number in the group, which is another rank's."""
    group = dist.new_group([1, 2, 3])
    if rank == 1:
        dist.send(torch.ones(2), dst=2, group=group)  # guilty
    if rank == 3:
        dist.recv(torch.ones(2), src=1, group=group)  # waits


@bug(3, Kind.DEADLOCKED, "rank 0", "recv", "any", "{waits}")
def one_message_too_few(rank: int, world_size: int) -> None:
    """Rank 0 expects two messages from anybody, and only rank 1 sends one."""
    tensor = torch.ones(4)
    if rank == 0:
        dist.recv(tensor, src=1)
        dist.recv(tensor)  # waits
    elif rank == 1:
        dist.send(tensor, dst=0)


@bug(3, Kind.DEADLOCKED, "rank 2", "rank 0", "recv", "{waits} | {also}")
def batch_without_a_send(rank: int, world_size: int) -> None:
    """In an exchange with both neighbours, rank 2 leaves its send out."""
    mine, theirs = torch.ones(2), torch.zeros(2)
    exchange = [dist.P2POp(dist.irecv, theirs, (rank - 1) % world_size)]
    if rank != 2:
        exchange.append(dist.P2POp(dist.isend, mine, (rank + 1) % world_size))
    for work in dist.batch_isend_irecv(exchange):  # waits
        work.wait()  # also


@bug(3, Kind.DEADLOCKED, "rank 1", "rank 2", "recv", "{waits}")
def pipeline_with_one_message_more(rank: int, world_size: int) -> None:
    """The last stage of a pipeline expects four micro-batches, the first one makes three."""
    for _ in range(4 if rank == 2 else 3):
        batch = torch.ones(4)
        if rank > 0:
            dist.recv(batch, src=rank - 1)  # waits
        if rank < 2:
            dist.send(batch, dst=rank + 1)


@bug(
    3,
    Kind.DEADLOCKED,
    "rank 0 waits for rank 2 in barrier #1 (",
    "rank 2 for rank 0 in send to rank 0",
    "{waits}",
    "{also}",
    guilty=[0],
    modes=KEPT,
)
def batch_without_its_receive(rank: int, world_size: int) -> None:
    """Rank 0 leaves the receive out of the last of its batches."""
    for step in range(3):
        sent, received = torch.ones(3), torch.empty(3)
        operations = [dist.P2POp(dist.isend, sent, (rank + 1) % world_size)]
        if rank != 0 or step < 2:
            operations.append(dist.P2POp(dist.irecv, received, (rank - 1) % world_size))
        for work in dist.batch_isend_irecv(operations):  # also
            work.wait()
    dist.barrier()  # waits


# -- lost messages and races


@bug(2, Kind.WARNING, "rank 0", "never received", "rank 1", "tag 3", "{guilty}", modes=KEPT)
def lost_message(rank: int, world_size: int) -> None:
    """Rank 0 sends a message that rank 1 never receives."""
    if rank == 0:
        dist.isend(torch.ones(2), dst=1, tag=3)  # guilty
    dist.barrier()


@bug(3, Kind.WARNING, "rank 0", "any", "ranks 1 and 2", "{guilty}", modes=KEPT)
def race_by_chance(rank: int, world_size: int) -> None:
    """Rank 0 takes the first message from anybody, and rank 2 mostly sends later than rank 1."""
    tensor = torch.full((2,), float(rank))
    if rank == 0:
        dist.recv(tensor)  # guilty
        dist.recv(tensor)
    else:
        dist.send(tensor, dst=0)
    dist.barrier()


@bug(3, Kind.WARNING, "rank 0", "any", "ranks 1, 2 | ranks 1 and 2", "{guilty}", modes=KEPT)
def race_of_messages(rank: int, world_size: int) -> None:
    """Two ranks send to rank 0, which takes the first message from anybody for that of rank 1."""
    tensor = torch.full((2,), float(rank))
    if rank == 0:
        dist.barrier()
        dist.recv(tensor)  # guilty
        dist.recv(tensor)
    else:
        work = dist.isend(tensor, dst=0)
        dist.barrier()
        assert work is not None
        work.wait()
