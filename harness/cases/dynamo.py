"""The base classes of distributed ``torch.compile`` tests, and ``clean_compiler``, which resets the compiler.

Source of the contract: ``common_distributed.DynamoDistributedSingleProcTestCase``,
``DynamoDistributedMultiProcTestCase`` and ``_dynamo_dist_per_rank_init``, and ``torch._dynamo.test_case``.
Upstream's classes need an accelerator and two fixed ports; these use the machine's devices, and a file.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, ClassVar

import torch
import torch._dynamo
import torch.distributed as dist
from torch._dynamo import config

from harness.cases import defaults
from harness.cases.comms import give_up_groups
from harness.cases.distributed import DistributedTestBase
from harness.cases.meshes import forget_meshes
from harness.compiler_state import reset_compiler
from harness.errors import UsageError
from harness.ranks import process_groups, rendezvous
from harness.ranks.local import rank as local
from harness.ranks.processes.preload import preload_compiler
from harness.releases import torch_at_least
from harness.requirements import get_required_world_size
from harness.system.scratch import scratch
from harness.testcase import TestCase

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

preload_compiler()  # imported before ranks and workers are forked, which would each import it otherwise

# The config modules that a test may change without restoring them.
CONFIGS = ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config")

# Inductor sets it for the C++ that it loads next, each time anew, and never removes it (related:
# pytorch/pytorch#170012).
INDUCTOR_VARIABLE = "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"

# The rendezvous files of the groups that a test makes, in the same order in every rank.
_rendezvous: ContextVar[Iterator[str] | None] = ContextVar("rendezvous", default=None)

# The groups that a test has ended, held until what else refers to them is collected. As the last reference,
# torch's Python object destroys a group without the GIL. DDP's reducer would keep the GIL, for which one of
# gloo's threads may wait, and for that thread gloo's destructor.
_ended_groups: ContextVar[list[object] | None] = ContextVar("ended_groups", default=None)


@contextlib.contextmanager
def clean_compiler() -> Iterator[None]:
    """A region that starts with nothing compiled or counted, and restores the compiler's state at its end.

    It restores the settings of ``CONFIGS``, the grad mode and the permission of saved-tensor hooks, and
    removes what inductor puts into the environment.
    """
    settings = {name: module.get_config_copy() for name, module in _configs()}
    grad = torch.is_grad_enabled()
    reset_compiler()
    try:
        yield
    finally:
        reset_compiler()
        torch._C._autograd._saved_tensors_hooks_enable()
        torch.set_grad_enabled(grad)
        os.environ.pop(INDUCTOR_VARIABLE, None)
        _end_progress_monitor()
        for name, module in _configs():
            _put_back(module, settings.get(name, {}))


def _end_progress_monitor() -> None:
    """Ends the monitor thread that tqdm starts with its first progress bar, even a disabled one.

    tqdm never ends it (tqdm/tqdm#1564, mandiant/capa#410, pytorch/pytorch#124409).
    """
    tqdm: Any = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if getattr(tqdm, "monitor", None) is not None:
        tqdm.monitor.exit()
        tqdm.monitor = None


def _configs() -> list[tuple[str, Any]]:
    return [(name, sys.modules[name]) for name in CONFIGS if name in sys.modules]


def _put_back(module: Any, settings: dict[str, Any]) -> None:
    """Sets only the settings that differ.

    Setting a value marks it as the user's, which changes cache keys (related: pytorch/pytorch#138758).
    """
    now = module.get_config_copy()
    for key, value in settings.items():
        if now.get(key) != value:
            setattr(module, key, value)


@contextlib.contextmanager
def _dynamo_dist_per_rank_init(
    rank: int, world_size: int, backend: str | None = None, init_pg: bool = True, fake_pg: bool = False
) -> Iterator[None]:
    """In a rank: a region with this rank's device, a process group and a clean compiler.

    ``backend`` None is the accelerator's where each rank has a device, else gloo. ``fake_pg`` makes a group
    that has no peers and computes nothing. The group is destroyed at the end. The rendezvous uses the file of
    a ``DynamoDistributedMultiProcTestCase``, elsewhere ``MASTER_ADDR`` and ``MASTER_PORT``; UsageError where
    there is neither.
    """
    kind = defaults.device_type_for(world_size)
    if kind != "cpu" and not fake_pg:
        defaults.use_device(rank)
    with clean_compiler():
        try:
            if init_pg and fake_pg:
                local.init_group(world_size, rank)
            elif init_pg:
                _init_group(backend or defaults.backend_for(kind), rank, world_size)
            yield
        except BaseException:
            if init_pg:
                give_up_groups()
            raise
        if init_pg and dist.is_initialized():
            held = _ended_groups.get()
            if held is not None:
                held.extend(process_groups.live_groups())
            dist.destroy_process_group()


def _init_group(backend: str, rank: int, world_size: int) -> None:
    files = _rendezvous.get()
    if files is not None:
        store = rendezvous.store(next(files), world_size)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    elif "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ:
        dist.init_process_group(backend, rank=rank, world_size=world_size)
    else:
        raise UsageError(
            "ranks have no way to find each other: derive the test from DynamoDistributedMultiProcTestCase, "
            "or set MASTER_ADDR and MASTER_PORT"
        )


class DynamoTestCase(TestCase):
    """A case in one process that starts with a clean compiler and leaves a clean one.

    While a class runs, an error of the compiler is raised instead of a silent fall-back to eager mode.
    ``_exit_stack`` holds contexts for the whole class. Source of the contract:
    ``torch._dynamo.test_case.TestCase``.
    """

    _exit_stack: ClassVar[contextlib.ExitStack]

    @classmethod
    def setUpClass(cls) -> None:
        """Makes the compiler raise its errors."""
        super().setUpClass()
        cls._exit_stack = contextlib.ExitStack()
        cls.addClassCleanup(cls._exit_stack.close)
        strict = {
            "raise_on_ctx_manager_usage": True,
            "suppress_errors": False,
            "log_compilation_metrics": False,
        }
        cls._exit_stack.enter_context(config.patch(strict))

    @classmethod
    def tearDownClass(cls) -> None:
        """Closes the class's contexts."""
        cls._exit_stack.close()
        super().tearDownClass()

    def setUp(self) -> None:
        """Resets the compiler, now and after the test's cleanups."""
        super().setUp()
        around = contextlib.ExitStack()
        self.addCleanup(around.close)
        around.enter_context(clean_compiler())
        if torch_at_least("2.12"):  # torch's own tests count graphs with it; DDP fails with it before 2.12
            config.nested_graph_breaks = True


class DynamoDistributedSingleProcTestCase(DynamoTestCase):
    """A case in one process that is rank 0 of a process group of one, which is made for the class.

    ``device`` is the first accelerator, else ``"cpu"``; ``device_ids`` is the matching argument of
    ``DistributedDataParallel``: None, the module's own device.
    """

    rank: ClassVar[int] = 0
    device: ClassVar[str]
    device_ids: ClassVar[list[int] | None] = None

    @classmethod
    def setUpClass(cls) -> None:
        """Makes the process group, with a new rendezvous file."""
        super().setUpClass()
        kind, _ = defaults.accelerator()
        cls.device = "cpu" if kind == "cpu" else f"{kind}:{cls.rank}"
        store = dist.FileStore(scratch().new_file("single"), 1)
        dist.init_process_group(defaults.backend_for(kind), store=store, rank=cls.rank, world_size=1)
        cls.addClassCleanup(_end_group)  # where a subclass's setUpClass fails, tearDownClass is not called

    @classmethod
    def tearDownClass(cls) -> None:
        """Destroys the process group."""
        _end_group()
        super().tearDownClass()


class DynamoDistributedMultiProcTestCase(DistributedTestBase):
    """A case on real ranks, whose methods use ``_dynamo_dist_per_rank_init(self.rank, self.world_size)``.

    There is one rank per accelerator, two without one. Every rank starts and ends with a clean compiler.
    """

    @property
    def world_size(self) -> int:
        """The world size that the test requires (``requires_world_size``), else one per accelerator."""
        return get_required_world_size(self, defaults.rank_per_accelerator())

    @property
    def device_type(self) -> str:
        """The accelerator's type where each rank has a device, else ``"cpu"``."""
        return defaults.device_type_for(self.world_size)

    def _run_in_rank(self, channel: Any) -> None:
        files = (f"{self._file_name}.dynamo{n}" for n in itertools.count())
        held: list[object] = []
        rendezvous, ended_groups = _rendezvous.set(files), _ended_groups.set(held)
        try:
            with clean_compiler():
                super()._run_in_rank(channel)
        finally:
            _rendezvous.reset(rendezvous)
            _ended_groups.reset(ended_groups)
            if channel.goes_on:
                # A DDP module forms a reference cycle with its process group, whose connections stay open;
                # DTensor's caches hold FSDP2's meshes, and these hold their groups.
                gc.collect()
                forget_meshes()
                held.clear()


def _end_group() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
