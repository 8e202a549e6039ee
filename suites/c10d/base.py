"""The ground that the c10d suites stand on: a group, a board to meet at, and ways to call a collective.

Owns the process group of a test (the backend and the device are named here and nowhere else, so that
another backend takes the same bodies), the sub-groups, the order in which ranks arrive, and the comparison
with the reference. Test bodies are written once, in classes without a world size, and
``instantiate_world_sizes`` makes the cases from them.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from harness import MultiProcessTestCase, conformance
from harness.targets import Capability, Target, current, needs, require
from suites.c10d.inputs import EXACTLY, Array, Case, tolerance_of
from suites.target_device import TargetField

#: Below the harness's deadline for a test, so that a stuck collective ends with the backend's own message.
COLLECTIVE_TIMEOUT = timedelta(seconds=60)

#: Seconds by which the last member stays behind the others. Nothing that is right depends on it: a call that
#: returns too early is seen, and not overtaken by what it should have waited for.
BEHIND_S = 0.005

#: Groups of global ranks by world size: each rank in exactly one, and group ranks other than the global.
PARTITIONS: Mapping[int, tuple[tuple[int, ...], ...]] = {
    2: ((0, 1),),
    3: ((0,), (1, 2)),
    4: ((0, 2), (1, 3)),
}


#: torch 2.11's gloo has only ``all_to_all_single``.
needs_all_to_all = needs(operation="all_to_all")
#: For what is gloo's own: its messages, its options, how it reads memory.
gloo_only = needs(backend="gloo")
#: For what is gloo's own on the CPU; from and to accelerators it copies, which takes other tensors.
gloo_on_cpu = needs(backend="gloo", device_type="cpu")


def declares(operation: str) -> bool:
    """Return whether the target declares an operation, for bodies that try several at once."""
    return bool(current().dtypes(operation))


def await_keys(store: dist.Store, keys: Iterable[str]) -> None:
    """Return when all of ``keys`` are there.

    ``get`` waits for its key as ``wait`` does, whose faults are the store tests' business alone.
    """
    for key in keys:
        store.get(key)


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype as targets have it: ``float32``."""
    return str(dtype).removeprefix("torch.")


class C10dTestCase(MultiProcessTestCase):
    """A test whose ranks have joined a default group when the method starts.

    In each rank: ``group`` is what to pass as ``group=`` (None: the default group), ``members`` its global
    ranks, ``group_rank`` this rank's place among them, ``board`` a store to meet at that no collective uses.

    **The last member of the group comes last.** It starts the method only once the others have, so a call
    that returns too early returns to them without its part. Bodies let the ranks that come early depend on
    it: roots that receive are tried from the first on, roots that send from the last on.
    """

    # Of the target that is tested; a class whose tests are about one backend or device says its name.
    backend = TargetField("backend")
    device_type = TargetField("device_type")
    # A backend has one default group a process, so ranks are processes. They are kept for a class, which
    # takes half of the time; a test that fails on ranks that others have used is tried again on new ones.
    rank_modes = ("pooled", "fresh")
    # How collectives are called, in the words of reports.
    way = "sync"

    rank: int
    group: dist.ProcessGroup | None
    members: Sequence[int]
    group_rank: int

    @property
    def device(self) -> torch.device:
        """Where this rank's tensors live: one accelerator a rank, or the CPU."""
        return torch.device("cpu") if self.device_type == "cpu" else self.target.device(self.rank)

    @property
    def target(self) -> Target:
        """The target that is tested."""
        return current()

    def setUpRank(self) -> None:
        super().setUpRank()
        # The older names are what most users call; their deprecation is not what is tested.
        warnings.filterwarnings("ignore", message="`torch.distributed.*deprecated", category=FutureWarning)
        if self.device_type == self.target.device_type:
            self.target.set_device(self.target.device(self.rank).index or 0)
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group(
            self.backend, store=store, rank=self.rank, world_size=self.world_size, timeout=COLLECTIVE_TIMEOUT
        )
        self.board = dist.PrefixStore("board", store)
        self.join_group()
        self.prepare()
        self.come_last(self.members[-1], "start", self.members)

    @property
    def everyone(self) -> range:
        """The group ranks of all members of the class's group."""
        return range(len(self.members))

    def join_group(self) -> None:
        """Say which group the bodies run on; here the default one."""
        self.group, self.members, self.group_rank = None, range(self.world_size), self.rank

    def prepare(self) -> None:
        """Make what the bodies of a class share; runs before the last member falls behind."""

    def come_last(self, last: int, where: str, members: Sequence[int]) -> None:
        """Return at once on every member but ``last``, which returns after the others have come ``where``.

        They are ``BEHIND_S`` ahead of it then. A place is used once in a test.
        """
        if self.rank != last:
            self.board.set(f"{where}/{self.rank}", "here")
            return
        await_keys(self.board, (f"{where}/{member}" for member in members if member != last))
        if len(members) > 1:
            time.sleep(BEHIND_S)

    def cell(self, operation: str, dtype: torch.dtype, **coordinates: str) -> AbstractContextManager[None]:
        """Say what is tried within: a cell of the report about the target."""
        return conformance.cell(operation, dtype=name_of(dtype), **coordinates, **self.called)

    @property
    def called(self) -> Mapping[str, str]:
        """How the class calls collectives and on which group, as coordinates of a cell."""
        return {"way": self.way, "group": "default group" if self.group is None else "sub-groups"}

    def call(self, collective: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Run a collective on the class's group to its end, in the class's way; here synchronously."""
        self.assertIsNone(collective(*args, group=self.group, **kwargs))

    def check(self, case: Case, actual: Any, expected: Any, *, rounded: bool = False) -> None:
        """Compare a tensor, or a list of them, with the reference: values, shape and dtype.

        Bit by bit, or, when ``rounded``, within what the arithmetic of the dtype loses.
        """
        if isinstance(actual, list):
            actual = [tensor.clone() for tensor in actual]
            self.assertEqual(len(actual), len(expected))
            for one, reference in zip(actual, expected, strict=True):
                self.check(case, one, reference, rounded=rounded)
            return
        self.same(
            actual, self.on_device(case, expected), **(self.tolerance(case.dtype) if rounded else EXACTLY)
        )

    def tolerance(self, dtype: torch.dtype) -> Mapping[str, float]:
        """Return what a reduction may be off by: what its arithmetic loses, or more if the target says so."""
        usual = tolerance_of(dtype)
        relative, absolute = self.target.tolerances.get(name_of(dtype), (0.0, 0.0))
        return {"rtol": max(usual["rtol"], relative), "atol": max(usual["atol"], absolute)}

    def same(self, actual: torch.Tensor, expected: torch.Tensor, **tolerance: float) -> None:
        """Compare what ``actual`` holds now, bit by bit unless given a tolerance.

        A copy is compared, since a comparison that fails takes long enough for late data to arrive.
        """
        actual = actual.clone()
        # assertEqual takes half a second for its first tensor of a rare dtype, equal or not.
        if actual.dtype != expected.dtype or not torch.equal(actual, expected):
            self.assertEqual(actual, expected, **(tolerance or EXACTLY))

    def declared(
        self, dtypes: Iterable[torch.dtype], operation: str, reduction: str | None = None
    ) -> tuple[torch.dtype, ...]:
        """Return those of ``dtypes`` that the target declares for an operation, or for one of its reductions.

        Where it declares none of them, the test is skipped as undeclared.
        """
        names = self.target.dtypes(operation, reduction)
        found = tuple(dtype for dtype in dtypes if name_of(dtype) in names)
        if not found:
            require(operation=operation, reduction=reduction)
            require(operation=operation, reduction=reduction, dtype=" ".join(map(str, dtypes)))
        return found

    def on_device(self, case: Case, values: Array) -> torch.Tensor:
        """Return the values as a tensor of the case, where this rank's tensors live."""
        return case.tensor(values, self.device)

    @contextmanager
    def refused(self, kind: type[Exception], message: str, **case: Any) -> Iterator[None]:
        """Expect exactly this type of exception, with ``message`` in its text as it stands.

        ``case`` makes it a sub-test with these parameters.
        """
        with self.subTest(**case) if case else nullcontext():
            with self.assertRaises(kind) as caught:
                yield
            self.assertIs(type(caught.exception), kind)
            self.assertIn(message, str(caught.exception))

    @contextmanager
    def warned_as_outsider(self, call: str) -> Iterator[None]:
        """Expect the warning that torch gives a rank for a call on a group that it is not in."""
        message = f"Running {call} on global rank {self.rank} which does not belong to the given group."
        with self.assertWarnsRegex(UserWarning, re.escape(message)):
            yield

    def timed_out(self, gloos: str) -> str:
        """Return the words of a call that timed out: gloo's, and none for sure of another backend."""
        return gloos if self.backend == "gloo" else ""

    def check_group_works(self) -> None:
        """Check that the group still adds up: what was refused or has failed has left nothing behind."""
        tensor = torch.tensor([self.group_rank + 1], device=self.device)
        dist.all_reduce(tensor, group=self.group)
        self.assertEqual(tensor.item(), sum(member + 1 for member in self.everyone))


@needs(Capability.SUB_GROUPS)
class OnSubGroup:
    """Runs the bodies on groups that share out the ranks (``PARTITIONS``), all of them at the same time."""

    def join_group(self) -> None:
        for ranks in PARTITIONS[self.world_size]:
            group = dist.new_group(list(ranks), backend=self.backend)
            if self.rank in ranks:
                self.group, self.members, self.group_rank = group, ranks, ranks.index(self.rank)


@needs(Capability.ASYNCHRONOUS)
class Asynchronously:
    """Calls every collective with ``async_op=True`` and waits for it by its handle."""

    way = "async"

    def call(self, collective: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        work = collective(*args, group=self.group, async_op=True, **kwargs)
        self.assertIsInstance(work, dist.Work)
        self.assertTrue(work.wait())


def instantiate_world_sizes(scope: dict[str, Any], *bodies: type, sizes: Sequence[int] = (2, 3, 4)) -> None:
    """Add a case for each class of bodies and world size to a module's scope: <Bodies>WorldSize<N>Test."""
    for body in bodies:
        for size in sizes:
            name = f"{body.__name__}WorldSize{size}Test"
            attributes = {
                "__module__": scope["__name__"],
                "__qualname__": name,
                "__doc__": f"{body.__doc__}\n\nWith {size} ranks.",
                "world_size": size,
            }
            scope[name] = type(name, (body, C10dTestCase), attributes)
