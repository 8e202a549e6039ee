"""``TriesInRank``: what one of two ranks does: one try after another, each end written to its file.

It stands where a test's class stands, so that launchers and ranks know no difference. A rank that hangs ends
itself: a thread of C does it (``faulthandler``), which needs nothing of Python.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from harness.outcomes import Status
from harness.ranks.result import RankResult
from harness.target_draft import capability
from harness.target_draft.capability import Place
from harness.target_draft.collective import Attempt
from harness.target_draft.tries import RIGHT, Finding, Try
from harness.targets import device

# Characters that are kept of what an exception says.
MOST_SAID = 200
# Where an object is in memory, as its representation says.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def path_of(directory: str, rank: int) -> str:
    """The file of a rank: a line ``[number]`` where a try begins, and ``[number, end, said]`` after it."""
    return os.path.join(directory, str(rank))


class TriesInRank:
    """The class that a launch of tries names."""

    @classmethod
    def _run(
        cls,
        rank: int,
        method: str,
        file_name: str,
        channel: Any,
        *,
        backend: str,
        device_type: str,
        directory: str,
        tries: Sequence[Mapping[str, str]],
        good: Sequence[Mapping[str, str]],
        limit_s: float,
    ) -> None:
        """Makes a group and tries, until one fails and the group has suffered by it.

        ``good`` are tries that work, by which that is found out; without any, every failure ends the round.
        ``limit_s`` is how long one try may take.
        """
        warnings.simplefilter("ignore")
        faulthandler.dump_traceback_later(limit_s, exit=True)
        place = _join(rank, backend, device_type, os.path.join(directory, "store"), limit_s)
        known = [Try(**each) for each in good]
        with open(path_of(directory, rank), "a", encoding="utf-8", buffering=1) as file:
            for number, each in enumerate(tries):
                print(json.dumps([number]), file=file)
                faulthandler.dump_traceback_later(limit_s, exit=True)
                finding = attempt(Try(**each), place)
                print(json.dumps([number, finding.end, finding.said]), file=file)
                place.store.set(f"{number}/{rank}", finding.end)
                ends = {place.store.get(f"{number}/{member}").decode() for member in (0, 1)}
                if ends != {RIGHT} and not (known and _still_works(number, known, place)):
                    break
        faulthandler.cancel_dump_traceback_later()
        channel.record(RankResult(Status.PASSED))


def _join(rank: int, backend: str, device_type: str, path: str, limit_s: float) -> Place:
    where = torch.device("cpu")
    if device_type != "cpu":
        where = torch.device(device_type, rank % max(1, device.device_count(device_type)))
        device.set_device(device_type, where.index)
    store = dist.FileStore(path, 2)
    # Half of the limit, so that a call that the backend itself can end is refused, and has not hung.
    timeout = timedelta(seconds=limit_s / 2)
    dist.init_process_group(
        backend, store=dist.PrefixStore("group", store), rank=rank, world_size=2, timeout=timeout
    )
    return Place(rank, where, dist.PrefixStore("meeting", store))


def attempt(each: Try, place: Place) -> Finding:
    """What comes of a try on this rank, if it neither dies nor hangs."""
    try:
        if each.capability:
            capability.run(each.capability, place)
        else:
            Attempt(place.rank, place.device, each.dtype, each.reduction).run(each.operation)
    except AssertionError as error:
        return Finding("wrong", said_by(error)[:MOST_SAID])
    except Exception as error:  # noqa: BLE001 - whatever a backend raises, it does not have this
        said = (said_by(error).strip().splitlines() or [""])[0]
        return Finding("refused", f"{type(error).__name__}: {said}"[:MOST_SAID])
    return Finding(RIGHT)


def said_by(error: Exception) -> str:
    """The text of an exception, without addresses of objects: equal errors are told together."""
    return _ADDRESS.sub("", str(error))


def _still_works(number: int, known: Sequence[Try], place: Place) -> bool:
    """Whether both ranks' group does what it did before, after a try that has failed."""
    bad = [finding for each in known if not (finding := attempt(each, place)).right]
    place.store.set(f"{number} after/{place.rank}", bad[0].end if bad else RIGHT)
    return all(place.store.get(f"{number} after/{member}").decode() == RIGHT for member in (0, 1))
