"""Tests the preload of the compiler: after it a forked process imports little when it compiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, ClassVar

import torch

from harness import MultiProcessTestCase
from harness.cases import dynamo as _bases  # noqa: F401 - brings the preload to this module's ranks
from harness.ranks.processes import preload

ROOT = Path(__file__).resolve().parents[4]

# A program for a fresh interpreter, since the one that runs the tests has imported everything before. It
# prints what the preload does besides importing, and what a first compile imports in a fork made before the
# preload and in one made after it.
PROGRAM = """
import importlib.util, json, os, sys
import torch, torch._dynamo
from torch.utils._python_dispatch import TorchDispatchMode
from harness.ranks.processes.preload import preload_compiler
from harness.system import fork_safety, posix

class Noted(TorchDispatchMode):
    operators = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.operators.append(str(operator))
        return operator(*args, **(kwargs or {}))

class Region:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

def imported_by_compiling():
    known = set(sys.modules)
    layer = torch.nn.Linear(4, 4)

    def function(x):
        with Region():
            return layer(x).relu().sum()

    torch.compile(function, backend="aot_eager")(torch.ones(2, 4)).backward()
    return sorted(sys.modules.keys() - known)

def patterns_made_by_compiling():
    made = fuse_attention._sfdp_init.cache_info
    known = made()
    torch._functorch.config.enable_autograd_cache = False  # what is found there is not looked through again
    torch.compile(lambda x: x @ x)(torch.ones(2, 2))
    return [made().misses - known.misses, made().hits - known.hits]

def in_a_fork(function):
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writable, json.dumps(function()).encode())
        os._exit(0)
    os.close(writable)
    with open(readable) as answer:
        result = json.load(answer)
    os.waitpid(pid, 0)
    return result

before = in_a_fork(imported_by_compiling)
with Noted():
    preload_compiler()
after = in_a_fork(imported_by_compiling)
timed = torch._dynamo.guards.profile_guard_manager.__module__
listed = torch._dynamo.variables.torch.get_overridable_functions.cache_info().currsize
from torch._inductor.fx_passes import fuse_attention
patterns = [in_a_fork(patterns_made_by_compiling)]
preload_compiler(inductor=True)
patterns.append(in_a_fork(patterns_made_by_compiling))
counted = dict(torch._dynamo.utils.counters)
forkable = fork_safety.fork_keeps_all_threads()
told = {"operators": Noted.operators, "children": posix.children(), "forkable": forkable}
told |= {"timed": timed, "listed": listed}
print(json.dumps({"before": before, "after": after, "patterns": patterns, "counted": counted, **told}))
"""
# Modules that a first compile may still import: another version of torch has a few that the lists lack.
FEW = 5
# Fewer than a first compile imports by itself, on every version of torch (some 600 on 2.13).
MANY = 100


class PreloadTest(unittest.TestCase):
    """``preload_compiler`` in a fresh interpreter."""

    told: ClassVar[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        """Runs the program once."""
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise AssertionError(ran.stderr)
        cls.told = json.loads(ran.stdout.splitlines()[-1])

    def test_imports(self) -> None:
        """A first compile imports hundreds of modules before the preload and next to none after it."""
        self.assertGreater(len(self.told["before"]), MANY)
        self.assertLessEqual(len(self.told["after"]), FEW, self.told["after"])

    def test_does_nothing_else(self) -> None:
        """The preload runs no operator, starts no process and leaves no thread that a fork would miss."""
        self.assertEqual(self.told["operators"], [])
        self.assertEqual(self.told["children"], [])
        self.assertTrue(self.told["forkable"])

    def test_patterns(self) -> None:
        """What inductor makes in a first compile it finds made after a preload for it."""
        made_and_found = self.told["patterns"]
        self.assertEqual(made_and_found, [[1, 0], [0, 1]])
        self.assertEqual(self.told["counted"], {})

    def test_functions_are_listed(self) -> None:
        """The functions that dynamo asks for in a first compile are there before it."""
        self.assertEqual(self.told["listed"], 1)

    def test_guards_are_not_timed(self) -> None:
        """What dynamo times the guards of a compiled function by is the harness's, which does nothing."""
        self.assertEqual(self.told["timed"], "harness.compiler_state")


class ListsTest(unittest.TestCase):
    """The lists of modules to preload."""

    def test_every_name_is_of_some_torch(self) -> None:
        """On the newest supported torch no listed module is misspelt or gone."""
        if not torch.__version__.startswith("2.13."):
            self.skipTest("the lists are of torch 2.13; other versions lack some of the modules")
        missing = [
            name
            for name in (*preload.TRACING, *preload.AOT, *preload.INDUCTOR)
            if name not in sys.modules and not preload.exists(name)
        ]
        self.assertEqual(missing, [])

    def test_missing_modules(self) -> None:
        """Neither a missing module nor a missing package is an error."""
        self.assertFalse(preload.exists("torch.no_such_module"))
        self.assertFalse(preload.exists("no_such_package.module"))
        self.assertTrue(preload.exists("torch._dynamo"))


class RanksTest(MultiProcessTestCase):
    """Ranks of a server that has imported a base class of compiler tests."""

    world_size = 2

    def test_first_compile(self) -> None:
        """A first compile in a rank imports next to nothing."""
        known = set(sys.modules)
        compiled = torch.compile(lambda x: (x * 2).sum(), backend="aot_eager")
        compiled(torch.ones(2, requires_grad=True)).backward()
        self.assertLessEqual(len(sys.modules.keys() - known), FEW, sys.modules.keys() - known)


if __name__ == "__main__":
    unittest.main()
