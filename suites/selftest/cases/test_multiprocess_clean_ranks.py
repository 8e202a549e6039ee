"""Tests what ranks see of the state that the process of their tests has, as ARCHITECTURE.rst lists it.

The oracle is a new process that imports the test's module, and runs no test. Each run has a process of its
own, because what is made there would stay in this one.
"""

from __future__ import annotations

import functools
import itertools
import json
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from typing import Any

from suites.selftest import warm_python
from suites.selftest.cases.clean_rank_rows import (
    ALWAYS,
    CONFIG,
    DETECTED,
    DROPPED,
    INHERITED,
    NOT_FORKED,
    SETTLED,
    Row,
)
from suites.selftest.pytest_plugin.runs import PytestCase
from suites.selftest.run.scripts import TREE
from suites.selftest.runner import runs

RUN_TESTS = str(runs.RUN_TESTS)
# What the head below imports of torch, for processes that have it from the beginning.
OF_TORCH = (
    "torch._dynamo",
    "torch.distributed._symmetric_memory",
    "torch.distributed.tensor",
    "torch.testing._internal.distributed.fake_pg",
)
HEAD = """
    import asyncio, atexit, contextvars, copyreg, decimal, faulthandler, gc, json, locale, logging
    import multiprocessing, os, random, resource, signal, socket, sys, tempfile, threading, tracemalloc
    import unittest, warnings
    from concurrent.futures import ThreadPoolExecutor
    import numpy, torch
    import torch._dynamo, torch.autograd.forward_ad, torch.distributed as dist
    import torch.distributed._symmetric_memory, torch.distributed.rpc as rpc, torch.distributed.tensor
    from torch.distributed.device_mesh import DeviceMesh
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.utils._python_dispatch import TorchDispatchMode
    from harness import MultiProcessTestCase

    kept, opened = [], []
    pool = ThreadPoolExecutor(1)
    variable = contextvars.ContextVar("variable")
    warnings.filterwarnings("ignore", message="of the module")

    class LoggingMode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Made:
        pass

    class Finder:
        def find_spec(self, *arguments):
            return None

    def identity(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def make_group():
        if not dist.is_initialized():
            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)

    def make_agent():
        rpc.init_rpc(
            "alone",
            rank=0,
            world_size=1,
            rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=f"file://{os.path.abspath('agent')}"),
        )

    def begin_collective():
        name = dist.group.WORLD.group_name
        kept.append(torch.ops._c10d_functional.all_reduce(torch.ones(1, device="cpu"), "sum", name))

    def compute_in_parallel():
        torch.set_num_threads(4)
        torch.ones(1 << 20).add_(1)

    def keep_open(*connections):
        kept.extend(connections)
        opened.extend(os.readlink(f"/proc/self/fd/{each.fileno()}") for each in connections)

    def descriptors():
        found = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return [os.readlink(each) for each in found if os.path.exists(each)]

    def stack_signals():
        return [each for each in (signal.SIGUSR1, signal.SIGUSR2) if faulthandler.unregister(each)]

    def tell_the_end(pid=os.getpid()):
        with open("ended", "a") as ended:
            ended.write(f"{os.getpid()}\\n")

    def make(row):
        exec(row, globals())

    def seen():
        return {ask: repr(eval(ask, globals())) for _, ask, _ in ROWS}
    """
MODULE = """
    def setUpModule():
        for row, _, _ in ROWS:
            make(row)

    class Fresh(MultiProcessTestCase):
        world_size = 2
        mode = "fresh"

        @classmethod
        def setUpClass(cls):
            os.environ["HARNESS_RANKS"] = cls.mode

        def test_as_new(self):
            self.maxDiff = None
            with open("new.json") as expected:
                self.assertEqual(seen(), json.load(expected))

    class Pooled(Fresh):
        mode = "pooled"
    """


@functools.cache
def seen_anew() -> dict[str, str]:
    """What each expression of the rows says in a new process that imports the module of a test."""
    rows = (*DROPPED, *DETECTED, *NOT_FORKED)
    program = (
        f"{textwrap.dedent(HEAD)}\nROWS = {[tuple(row) for row in rows]!r}\njson.dump(seen(), sys.stdout)"
    )
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "test_rows.py")
        file.write_text(program)
        run = subprocess.run(
            [sys.executable, str(file)],
            cwd=directory,
            env=runs.environ(Path(directory), PYTHONPATH=str(TREE)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    seen: dict[str, str] = json.loads(run.stdout)
    return seen


def setUpModule() -> None:
    """Asks the new process, at a cost that the runner sees."""
    seen_anew()


class RowsCase(PytestCase):
    """Base class of tests that write a module and compare its ranks with a new process."""

    warm = False

    def write_module(self, rows: tuple[Row, ...], body: str = MODULE) -> None:
        """Writes the module with its rows, and what a new process sees that imports it."""
        listed = f"ROWS = {[tuple(row) for row in rows]!r}\n"
        source = textwrap.dedent(HEAD) + listed + textwrap.dedent(body)
        (self.project / "test_rows.py").write_text(source)
        known = seen_anew()
        new = {row.ask: known[row.ask] for row in rows if row.ask in known}
        (self.project / "new.json").write_text(json.dumps(new))

    def run_python(self, *command: str, code: int = 0, **variables: str) -> str:
        """What a command prints; it has to end with ``code``."""
        env = runs.environ(self.project, PYTHONPATH=str(TREE), **variables)
        if command[0] == RUN_TESTS:
            run = warm_python.run_runner(
                command, cwd=self.project, env=env, timeout=runs.PATIENCE_S, imports=OF_TORCH
            )
        else:
            run = warm_python.run(
                command,
                cwd=self.project,
                env=env,
                timeout=runs.PATIENCE_S,
                imports=OF_TORCH,
                children=False,
            )
        self.assertEqual(run.returncode, code, run.stdout)
        return run.stdout


class ByUnittestTest(RowsCase):
    """What ``setUpModule`` makes, in ranks of unittest's and of the runner's."""

    def test_dropped(self) -> None:
        """A fork drops it, and calls nothing that was to be called at the end of its parent."""
        self.write_module(DROPPED)
        self.run_python("-m", "unittest", "test_rows")
        self.assertEqual(len((self.project / "ended").read_text().split()), 1)

    def test_detected(self) -> None:
        """A new process has not got it, and is where ranks begin."""
        self.write_module(DETECTED)
        self.run_python("-m", "unittest", "test_rows")

    def test_not_forked(self) -> None:
        """Threads and a device's context, of which a fork has but the memory."""
        self.write_module((INHERITED[-1], *NOT_FORKED))
        found = [clean for _, clean in self.in_forks("fork_safety.is_clean()")]
        self.assertEqual(found, [True, *(False for _ in NOT_FORKED)])
        self.write_module(NOT_FORKED[:1])
        self.run_python("-m", "unittest", "test_rows")

    def test_by_the_runner(self) -> None:
        """So it is where a worker runs ``setUpModule``."""
        for rows in (DROPPED, DETECTED):
            with self.subTest(rows[0].make):
                self.write_module(rows)
                self.run_python(RUN_TESTS, "test_rows.py")

    def test_inherited(self) -> None:
        """What every child process inherits is in ranks, and what the module has in its variables."""
        self.write_module(INHERITED)
        dump = "json.dump(test_rows.seen(), open('new.json', 'w'))"
        self.run_python("-c", f"import json, test_rows; test_rows.setUpModule(); {dump}")
        self.run_python("-m", "unittest", "test_rows")

    def test_settled(self) -> None:
        """A rank sets it for itself: ranks see the same where nothing was made in their parent."""
        tells = """
            def setUpModule():
                if "MAKE" in os.environ:
                    for row, _, _ in ROWS:
                        make(row)

            class Fresh(MultiProcessTestCase):
                world_size = 2
                mode = "fresh"

                @classmethod
                def setUpClass(cls):
                    os.environ["HARNESS_RANKS"] = cls.mode

                def test_tells(self):
                    with open(f"{os.environ['TOLD']}.{self.mode}.{self.rank}", "w") as told:
                        json.dump(seen(), told)

            class Pooled(Fresh):
                mode = "pooled"
            """
        self.write_module(SETTLED, tells)
        self.run_python("-m", "unittest", "test_rows", TOLD="plain")
        self.run_python("-m", "unittest", "test_rows", TOLD="made", MAKE="1")
        for mode, rank in itertools.product(("fresh", "pooled"), (0, 1)):
            with self.subTest(mode, rank=rank):
                plain, made = (
                    json.loads((self.project / f"{n}.{mode}.{rank}").read_text()) for n in ("plain", "made")
                )
                self.assertEqual(made, plain)
                self.assertEqual(len(plain), len({row.ask for row in SETTLED}))

    def test_each_alone(self) -> None:
        """Each of those that have a new process made is found, by its name and no other's."""
        self.write_module(DETECTED)
        lines = self.in_forks("(*torch_state.made_here(), *fork_safety.IMPORTED.changed())")
        self.assertEqual(len(lines), len(DETECTED))
        beside = {
            "default device": {"function modes"},
            "functional collectives under way": {"process groups"},
            "device mesh stack": {"process groups"},
            "float32 matmul precision": {"switches of torch.backends"},
            "switches of torch.backends": {"float32 matmul precision"},  # matmul's, by another name
            "deterministic algorithms": {"deterministic warn-only", CONFIG},
            "inference mode": {"grad mode", "multithreaded backward"},
            # By dynamo's imports.
            "compiled functions": {"context variables", CONFIG, "operators of torch.library"},
        }
        for name, found in lines:
            with self.subTest(name):
                self.assertIn(name, found)
                self.assertLessEqual(set(found) - beside.get(name, set()), {name})

    def in_forks(self, ask: str) -> list[tuple[str, Any]]:
        """Each row's name, and what ``ask`` says in a fork of the module's process that has made it."""
        program = f"""
            import json, os, test_rows
            from harness.system import fork_safety, torch_state

            for row, _, name in test_rows.ROWS:
                pid = os.fork()
                if pid == 0:
                    test_rows.make(row)
                    print(json.dumps([name, {ask}]), flush=True)
                    os._exit(0)
                os.waitpid(pid, 0)
            """
        said = self.run_python("-c", textwrap.dedent(program)).splitlines()
        return [json.loads(line) for line in said if line.startswith("[")]  # torch warns of some


class ByPytestTest(RowsCase):
    """What a ``conftest.py`` makes, and pytest itself."""

    def test_pytests_own(self) -> None:
        """Ranks have neither the filters of warnings that pytest sets by itself nor its handlers."""
        self.write_module(DROPPED)
        (self.project / "pytest.ini").write_text("[pytest]\nlog_cli = true\n")
        run = self.pytest("test_rows.py")
        self.assertEqual(run.counts, {"passed": 2}, run.out)

    def test_conftest(self) -> None:
        """What it makes when it is imported is not in ranks where no import of the module's has a part."""
        rows = tuple(row for row in DETECTED if row.detected in ALWAYS)
        self.write_module(rows, MODULE.replace("def setUpModule", "def never_called"))
        lines = [
            *("import asyncio, decimal, numpy, signal, sys, torch, torch.distributed as dist",),
            *("import torch.autograd.forward_ad", "from test_rows import LoggingMode, make_group"),
            *(row.make for row in rows),
        ]
        (self.project / "conftest.py").write_text("\n".join(lines) + "\n")
        run = self.pytest("test_rows.py")
        self.assertEqual(run.counts, {"passed": 2}, run.out)

    def test_logging_of_the_module(self) -> None:
        """What a rank logs and warns is in its output, though the handler was made for pytest's capture."""
        body = """
            logging.root.addHandler(logging.StreamHandler())
            logging.root.setLevel(logging.INFO)

            class Ranks(MultiProcessTestCase):
                world_size = 2

                def test_tells(self):
                    logging.info("logged by rank %d", self.rank)
                    warnings.warn(f"warned by rank {self.rank}")
            """
        self.write_module((), body)
        run = self.pytest("-rA", "test_rows.py")
        self.assertEqual(run.counts.get("passed"), 1, run.out)
        for rank in (0, 1):
            self.assertIn(f"logged by rank {rank}", run.out)
            self.assertIn(f"UserWarning: warned by rank {rank}", run.out)


if __name__ == "__main__":
    unittest.main()
