"""Tests what two ranks record of ``torch.distributed.rpc``, each in a log that the test can read."""

from __future__ import annotations

import inspect
import mmap
import operator
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed import rpc

from harness import MultiProcessTestCase
from harness.communication import call_log
from harness.communication.analysis.rpc_workers import agent_is_up
from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.record.recorder import Recorder
from harness.communication.taps import taps
from harness.communication.taps.rpc_taps import rpc_wrappers
from harness.communication.taps.tap_state import Taps
from harness.communication_call import Call, Kind


def fail() -> None:
    """What a rank is asked to do in vain."""
    raise ValueError("asked for")


@unittest.skipUnless(rpc.is_available(), "torch was built without RPC")
class RecordedTest(MultiProcessTestCase):
    """The calls of two workers."""

    world_size = 2

    @contextmanager
    def joined(self, *, leaves: bool = True) -> Iterator[mmap.mmap]:
        """Joins, gives the memory in which the rank's calls are, and ``leaves`` if all is well."""
        found, memory = taps.prepare(), mmap.mmap(-1, LOG_BYTES)
        assert found is not None
        with mock.patch.object(found, "recorder", Recorder(CallLog(memory), taps.members_of)):
            options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{self.file_name}")
            rpc.init_rpc(f"w{self.rank}", rank=self.rank, world_size=2, rpc_backend_options=options)
            yield memory
            if leaves:
                rpc.shutdown()

    def answers(self, memory: mmap.mmap) -> list[Call]:
        """The remote calls."""
        return [call for call in call_log.read(memory) if call.kind is Kind.ANSWER]

    def test_joining_and_leaving(self) -> None:
        """Both have the worker's name, and how many there are; nothing that they do is recorded."""
        with self.joined() as memory:
            (joining,) = call_log.read(memory)
        told = joining.signature
        self.assertEqual((str(joining), told.kind, told.key), ("init_rpc", Kind.WORKERS, f"w{self.rank}"))
        self.assertEqual(told.workers, 2)
        _, leaving = call_log.read(memory)
        self.assertEqual((str(leaving), leaving.signature.key), ("rpc.shutdown", f"w{self.rank}"))
        self.assertEqual((leaving.signature.workers, leaving.signature.timeout_s), (2, None))
        for call in (joining, leaving):
            self.assertIsNotNone(call.waiting_s)
            self.assertIsNotNone(call.ended_s)
            self.assertRegex(call.place, r"^test_rpc_taps.py:\d+ in joined$")

    def test_among_many_calls(self) -> None:
        """That a rank has joined is known however many calls it makes, until it leaves."""
        with self.joined() as memory:
            found = taps.prepare()
            assert found is not None and found.recorder is not None
            for _ in range(call_log.ENTRIES + 1):
                found.recorder.ended(found.recorder.cpp_begins("backward"))
            self.assertTrue(agent_is_up(call_log.read(memory)))
        self.assertFalse(agent_is_up(call_log.read(memory)))

    def test_leaving_alone(self) -> None:
        """Who leaves without the others waits for nobody."""
        with self.joined(leaves=False) as memory:
            rpc.shutdown(graceful=False)
            self.assertFalse(call_log.read(memory)[-1].signature.workers)
            with self.assertRaisesRegex(RuntimeError, "not been initialized"):
                rpc.shutdown()
            with (
                mock.patch.object(rpc.api, "_destroy_rref_context") as destroyed,
                self.assertRaisesRegex(RuntimeError, "agent is not set"),
            ):
                rpc.api._finalize_shutdown()
            destroyed.assert_called_once()
            self.assertEqual(len(call_log.read(memory)), 2)

    def test_leaving_by_another_name(self) -> None:
        """A shutdown that is not wrapped is seen when it ends, and waits for nobody as far as is known."""
        with self.joined(leaves=False) as memory:
            inspect.unwrap(rpc.shutdown)()
            *_, leaving = call_log.read(memory)
            self.assertEqual((str(leaving), leaving.signature.key), ("rpc.shutdown", f"w{self.rank}"))
            self.assertEqual((leaving.signature.workers, leaving.waiting_s), (0, None))
            self.assertFalse(agent_is_up(call_log.read(memory)))

    def test_answers(self) -> None:
        """A rank asks in each of the three ways, and waits for an asynchronous call when it does."""
        other, one = f"w{1 - self.rank}", torch.ones(2)
        with self.joined() as memory:
            future = rpc.rpc_async(other, torch.add, (one, one))
            (asked,) = self.answers(memory)
            self.assertEqual((asked.waiting_s, asked.waits), (None, False))
            self.assertEqual(future.wait().tolist(), [2, 2])
            (asked,) = self.answers(memory)
            self.assertIsNotNone(asked.waiting_s)
            self.assertIsNotNone(asked.ended_s)
            self.assertEqual(rpc.rpc_sync(1 - self.rank, operator.add, (1, 2)), 3)
            self.assertEqual(rpc.remote(other, operator.add, (1, 3)).to_here(), 4)
            kinds = ("rpc_async to", "rpc_sync to", "to_here from")
            self.assertEqual([str(c) for c in self.answers(memory)], [f"{kind} {other}" for kind in kinds])
            self.assertEqual([c.waits for c in self.answers(memory)], [False] * 3)

    def test_fetching_too_late(self) -> None:
        """Who asks after the shutdown, when a worker has no name any more, gets torch's own error."""
        with self.joined(leaves=False) as memory:
            found = rpc.remote(f"w{1 - self.rank}", operator.add, (1, 3))
            self.assertEqual(found.to_here(), 4)
            rpc.shutdown()
            with self.assertRaisesRegex(RuntimeError, "after deletion"):
                found.to_here()
            self.assertEqual(len(self.answers(memory)), 1)

    def test_chained(self) -> None:
        """Who waits for what comes after an answer waits for the answer; it has the line that asked."""
        with self.joined() as memory:
            rpc.rpc_async(f"w{1 - self.rank}", operator.add, (1, 2)).then(
                lambda answered: self.assertEqual(answered.wait(), 3)
            ).wait()
            (asked,) = self.answers(memory)
            self.assertIsNotNone(asked.waiting_s)
            self.assertRegex(asked.place, r" in test_chained$")

    def test_raising(self) -> None:
        """What a remote function raises ends the call."""
        with self.joined() as memory:
            for ask in (rpc.rpc_sync, lambda *to: rpc.remote(*to).to_here()):
                with self.assertRaisesRegex(ValueError, "asked for"):
                    ask(f"w{1 - self.rank}", fail)
                last = self.answers(memory)[-1]
                self.assertEqual((last.raised, last.waits), (True, False))


@unittest.skipUnless(rpc.is_available(), "torch was built without RPC")
class JoiningTest(unittest.TestCase):
    """For how long workers wait for each other, with a backend that does not wait at all."""

    def test_timeouts(self) -> None:
        """As long as a process group may take, or where gloo waits by the store itself, as that does."""
        with tempfile.NamedTemporaryFile() as file:
            file_store, hash_store = dist.FileStore(file.name), dist.HashStore()
            group_s = rpc.constants.DEFAULT_PROCESS_GROUP_TIMEOUT.total_seconds()
            for store, expected in ((file_store, group_s), (hash_store, 50.0)):
                with self.subTest(type(store).__name__):
                    store.set_timeout(timedelta(seconds=50))
                    self.assertEqual(self.joining(store).signature.timeout_s, expected)

    def joining(self, store: dist.Store) -> Call:
        """What is recorded of a worker that joins."""
        state, memory = Taps(), mmap.mmap(-1, LOG_BYTES)
        state.recorder = Recorder(CallLog(memory), taps.members_of)
        joins = next(wrapper for _, name, wrapper in rpc_wrappers(state) if name == "init_backend")
        backend = SimpleNamespace(value=SimpleNamespace(init_backend_handler=lambda **_: None))
        joins(backend, store=store, name="w0", rank=0, world_size=2, rpc_backend_options=None)
        (call,) = call_log.read(memory)
        return call


if __name__ == "__main__":
    unittest.main()
