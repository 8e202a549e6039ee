"""How ranks find each other: init methods and store objects, what they refuse, and waits that end.

Every TCP port is one that a live server holds: the kernel chooses it, and a file hands it down.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
import unittest
from datetime import timedelta
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed import rpc
from torch.distributed.rendezvous import _rendezvous_handlers

from harness import (  # noqa: F401  (unittest calls load_tests)
    MultiProcessTestCase,
    TestCase,
    load_tests,
    run_tests,
    slow_test,
)
from harness.targets import Capability, current, needs
from suites.c10d.base import BEHIND_S
from suites.target_device import OnTargetDevice

#: Below the harness's deadline for a test.
TIMEOUT = timedelta(seconds=60)
#: For ranks that never come.
PATIENCE = timedelta(seconds=1)
HOST = "127.0.0.1"
#: The barrier waits at least 10 s, whatever it is told; this is what it is told.
BARRIER_PATIENCE = timedelta(seconds=3)


class InitMethodsTest(OnTargetDevice, MultiProcessTestCase):
    """Three ranks that meet in each of the ways, and find out that they have."""

    # An environment for each rank, which threads have not.
    rank_modes = ("fresh", "pooled")
    world_size = 3

    def setUpRank(self):
        super().setUpRank()
        environ = mock.patch.dict(os.environ)
        environ.start()
        self.addCleanup(environ.stop)

    def served_port(self):
        """Return the port of a store that rank 0 serves, for all ranks to be clients of."""
        file = dist.FileStore(self.file_name, self.world_size)
        if self.rank == 0:
            self.server = dist.TCPStore(
                self.master_addr, 0, None, True, wait_for_workers=False, timeout=TIMEOUT
            )
            file.set("port", str(self.server.port))
        # Rank 0 is a client of its server too.
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        return int(file.get("port"))

    def check_meets(self, **how):
        """Check that a group made in this way has the ranks that it should have."""
        dist.init_process_group(current().backend, timeout=TIMEOUT, **how)
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (self.rank, self.world_size))
        tensors = [torch.zeros(1) for _ in range(self.world_size)]
        if self.rank == self.world_size - 1:
            time.sleep(BEHIND_S)
        dist.all_gather(tensors, torch.tensor([self.rank + 0.5]))
        self.assertEqual([tensor.item() for tensor in tensors], [0.5, 1.5, 2.5])

    def test_file(self):
        self.check_meets(init_method=f"file://{self.file_name}", rank=self.rank, world_size=self.world_size)

    def test_file_with_rank_and_world_size_in_the_url(self):
        url = f"file://{self.file_name}?rank={self.rank}&world_size={self.world_size}"
        self.check_meets(init_method=url)

    def test_tcp(self):
        url = f"tcp://{self.master_addr}:{self.served_port()}"
        self.check_meets(init_method=url, rank=self.rank, world_size=self.world_size)

    def test_env(self):
        os.environ.update(
            MASTER_ADDR=self.master_addr,
            MASTER_PORT=str(self.served_port()),
            RANK=str(self.rank),
            WORLD_SIZE=str(self.world_size),
        )
        self.check_meets(init_method="env://")

    def test_env_with_rank_and_world_size_in_the_url(self):
        # They win over the variables, which name a rank that is not there.
        os.environ.update(
            MASTER_ADDR=self.master_addr, MASTER_PORT=str(self.served_port()), RANK="7", WORLD_SIZE="8"
        )
        self.check_meets(init_method=f"env://?rank={self.rank}&world_size={self.world_size}")

    def test_handler_of_the_users_own(self):
        def handler(url, **options):
            self.assertEqual(url, "board://here")
            yield dist.FileStore(self.file_name, self.world_size), self.rank, self.world_size

        with mock.patch.dict(_rendezvous_handlers):
            dist.register_rendezvous_handler("board", handler)
            with self.assertRaisesRegex(RuntimeError, "board:// already registered"):
                dist.register_rendezvous_handler("board", handler)
            self.check_meets(init_method="board://here")

    def test_store_object(self):
        store = dist.PrefixStore("any", dist.FileStore(self.file_name, self.world_size))
        self.check_meets(store=store, rank=self.rank, world_size=self.world_size)

    @needs(Capability.TIMEOUTS)
    def test_a_rank_that_never_comes(self):
        # All but the last rank make a group of all; the last stays until they have given up.
        store = dist.FileStore(self.file_name, self.world_size)
        present = range(self.world_size - 1)
        if self.rank in present:
            with self.assertRaisesRegex(RuntimeError, "(?i)time(d )?out"):
                dist.init_process_group(
                    current().backend,
                    store=dist.PrefixStore("group", store),
                    rank=self.rank,
                    world_size=self.world_size,
                    timeout=PATIENCE,
                )
            store.set(f"gave up/{self.rank}", "")
        store.wait([f"gave up/{rank}" for rank in present], TIMEOUT)


class RendezvousEnvTest(MultiProcessTestCase):
    """One rank, as upstream tests it."""

    rank_modes = ("fresh",)
    world_size = 1

    def test_logging_init(self):
        """Where logs go is for the user to say: making a group adds no handler for all loggers."""
        server = dist.TCPStore(HOST, 0, None, True, wait_for_workers=False, timeout=TIMEOUT)
        meeting = {
            "WORLD_SIZE": "1",
            "RANK": "0",
            "MASTER_ADDR": HOST,
            "MASTER_PORT": str(server.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        root = logging.getLogger()
        before = list(root.handlers), root.level
        with mock.patch.dict(os.environ, meeting):
            dist.init_process_group(current().backend, init_method="env://", timeout=TIMEOUT)
        self.assertTrue(dist.is_initialized())
        self.assertEqual((root.handlers, root.level), before)


def answer_to(number):
    """Answer a peer: its number, with ten for each rank up to this one."""
    return number + 10 * (rpc.get_worker_info().id + 1)


@unittest.skipUnless(rpc.is_available(), "torch was built without RPC")
class SharedWithRpcTest(OnTargetDevice, MultiProcessTestCase):
    """A group and RPC that meet in one place, and neither takes the other's keys."""

    rank_modes = ("fresh",)
    world_size = 2

    def check_both(self, url):
        """Join a group and RPC by the same URL, and ask every rank both ways."""
        dist.init_process_group(
            current().backend, init_method=url, rank=self.rank, world_size=self.world_size, timeout=TIMEOUT
        )
        options = rpc.TensorPipeRpcBackendOptions(init_method=url)
        rpc.init_rpc(
            f"worker{self.rank}",
            rank=self.rank,
            world_size=self.world_size,
            rpc_backend_options=options,
        )
        for peer in range(self.world_size):
            answer = rpc.rpc_sync(f"worker{peer}", answer_to, args=(self.rank,))
            self.assertEqual(answer, self.rank + 10 * (peer + 1))
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), 3.0)
        rpc.shutdown()
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), 6.0)

    def test_init_pg_and_rpc_with_same_file(self):
        self.check_both(f"file://{self.file_name}.both")

    def test_init_pg_and_rpc_with_same_socket(self):
        with mock.patch.dict(os.environ):
            self.check_both(f"tcp://{self.master_addr}:{InitMethodsTest.served_port(self)}")


class RefusalsTest(TestCase):
    """What no rendezvous can be made of. No ranks."""

    def refused(self, message, *arguments, **how):
        with self.assertRaisesRegex((ValueError, RuntimeError), message):
            dist.init_process_group(current().backend, *arguments, **how)
        self.assertFalse(dist.is_initialized())

    def test_unknown_scheme(self):
        self.refused("No rendezvous handler for invalid://", init_method="invalid://x", rank=0, world_size=1)

    def test_missing_arguments(self):
        for url, message in {
            "file:///tmp/none": "rank parameter missing",
            "file:///tmp/none?rank=0": "world size parameter missing",
            "file://?rank=0&world_size=1": "path missing",
            "tcp://127.0.0.1?rank=0&world_size=1": "port number missing",
        }.items():
            with self.subTest(url=url):
                self.refused(message, init_method=url)

    def test_missing_variables(self):
        known = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": HOST, "MASTER_PORT": "0"}
        for missing in known:
            with self.subTest(missing=missing), mock.patch.dict(os.environ, known):
                del os.environ[missing]
                self.refused(f"environment variable {missing} expected", init_method="env://")

    def test_store_and_init_method(self):
        with self.assertRaisesRegex(AssertionError, "(?i)cannot specify both init_method and store"):
            dist.init_process_group(current().backend, init_method="env://", store=dist.HashStore())


class TimeoutTest(TestCase):
    """A barrier on a store that one of four threads stays away from. No ranks."""

    def errors_of(self, stores):
        """Return what the barrier raises in each of three threads, by the thread's store."""
        errors = [None] * len(stores)

        def enter(rank):
            try:
                c10d._store_based_barrier(
                    rank, stores[rank], "_", len(stores) + 1, BARRIER_PATIENCE, BARRIER_PATIENCE / 2
                )
            except RuntimeError as error:
                errors[rank] = error

        return errors, [threading.Thread(target=enter, args=(rank,)) for rank in range(len(stores))]

    @slow_test
    def test_store_based_barrier(self):
        # Each kind takes the barrier's 10 s; all of them at once take no longer.
        file = self.make_file()
        server = dist.TCPStore(HOST, 0, None, True, wait_for_workers=False, timeout=TIMEOUT)
        clients = [dist.TCPStore(HOST, server.port, None, False, timeout=TIMEOUT) for _ in range(2)]
        kinds = {
            "file": [dist.FileStore(file, 4) for _ in range(3)],
            "tcp": [server, *clients],
            "hash": [dist.HashStore() for _ in range(3)],
        }
        found = {kind: self.errors_of(stores) for kind, stores in kinds.items()}
        threads = [thread for _, of_kind in found.values() for thread in of_kind]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for kind, (errors, _) in found.items():
            with self.subTest(store=kind):
                for error in errors:
                    self.assertIsInstance(error, dist.DistStoreError)
                    self.assertIsInstance(error, dist.DistError)
                    self.assertIn("Timed out initializing process group in store based barrier", str(error))

    def make_file(self):
        """Return the name of a file that is not there, in a directory that goes with the test."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return str(Path(directory.name, "store"))

    def test_default_store_timeout_gloo(self):
        for kind, store in {
            "file": dist.FileStore(self.make_file(), 1),
            "tcp": dist.TCPStore(HOST, 0, None, True, wait_for_workers=False),
        }.items():
            with self.subTest(store=kind):
                store.set_timeout(PATIENCE)
                backend = current().backend
                dist.init_process_group(backend, store=store, rank=0, world_size=1, timeout=PATIENCE)
                self.addCleanup(lambda: dist.is_initialized() and dist.destroy_process_group())
                with self.assertRaisesRegex(RuntimeError, "(?i)timeout"):
                    c10d._get_default_store().get("nonexistent key")
                dist.destroy_process_group()


if __name__ == "__main__":
    run_tests()
