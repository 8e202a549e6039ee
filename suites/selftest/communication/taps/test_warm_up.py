"""Tests that calls are rehearsed: what a rank runs at its first calls is run, and nothing else happens."""

from __future__ import annotations

import mmap
import sys
import unittest
from types import FrameType
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.record.chaos import Chaos, DelayingRecorder
from harness.communication.record.recorder import Recorder
from harness.communication.taps import taps
from harness.communication.taps.warm_up import ROUNDS, prepare_forks, warm_up

# What runs at the first calls of each rank.
FIRST = {
    f"harness.{name}"
    for name in (
        "communication.record.other_calls.makes_group",
        "communication.record.other_calls.uses_store",
        "communication.record.recorder.began",
        "communication.record.recorder.waited",
        "communication.record.known_groups.find",
        "communication.record.user_lines._text",
        "communication.record.user_lines._find_owner",
        "communication.record.signatures.call_text",
        "communication.record.signatures.group_text",
        "communication.record.signatures.store_text",
        "communication.record.signatures._tensors",
        "communication.call_log.text",
        "communication.call_log.begin",
        "communication.call_log.end",
        "frames.place_text",
    )
}


class Noted(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
    """Notes the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Notes the operator and runs it."""
        self.operators.append(str(operator))
        return operator(*args, **kwargs or {})


class RehearsalTest(unittest.TestCase):
    """What ``warm_up`` runs, and what it leaves alone."""

    def test_what_runs(self) -> None:
        """All that the first calls of a rank, and usual ones, run is run often enough to be specialised."""
        taps.prepare()
        runs: dict[str, int] = {}
        usual = 0

        def note(frame: FrameType, event: str, value: object) -> None:
            nonlocal usual
            name = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"
            if event == "call":
                runs[name] = runs.get(name, 0) + 1
            elif event == "return" and name == "harness.communication.record.usual_calls.again":
                usual += value is not None

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            warm_up.__wrapped__()
        finally:
            sys.setprofile(before)
        self.assertEqual({name for name in FIRST if runs.get(name, 0) < ROUNDS}, set())
        self.assertEqual(2 * usual, runs["harness.communication.record.usual_calls.again"])

    def test_spare(self) -> None:
        """A recorder is there before a fork, for whoever is forked; under chaos there is another one."""
        state = taps.prepare()
        assert state is not None
        for chaos, kind in ((None, Recorder), (Chaos(1, 0), DelayingRecorder)):
            log = CallLog(mmap.mmap(-1, LOG_BYTES))
            with mock.patch.multiple(state, recorder=None, spare=None, chaos=None):
                prepare_forks()
                spare = state.spare
                prepare_forks()
                self.assertIs(state.spare, spare)
                taps.install(log, chaos=chaos)
                recorder: Any = state.recorder
                self.assertIs(type(recorder), kind)
                self.assertEqual(recorder is spare, chaos is None)
                self.assertIs(recorder.log, log)
                prepare_forks()
                self.assertIsNone(state.spare)

    def test_nothing_else(self) -> None:
        """No operator runs, no group is made, and what is recorded of this process stays as it was."""
        state = taps.prepare()
        assert state is not None
        recorder, group = state.recorder, dist.is_initialized()
        with Noted() as noted:
            torch.ones(1)
            warm_up.__wrapped__()
        self.assertEqual(noted.operators, ["aten.ones.default"])
        self.assertIs(state.recorder, recorder)
        self.assertEqual(dist.is_initialized(), group)


if __name__ == "__main__":
    unittest.main()
