"""``Hunted``: what a fuzzer is to ``tools/hunt.py``, and the table of all fuzzers by name.

A fuzzer draws programs from a seed, runs one against an oracle of its own, makes a program simpler, and
prints it as a script in plain torch. The hunt does the rest: ranks, deadlines, crashes, shrinking,
signatures, the book of known bugs::

    seed --> drawn() --> run() on ranks --> fails? --> simpler() ... --> script() in a fresh process
"""

from __future__ import annotations

import functools
import importlib
import random
import re
import sys
import types
import unittest
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from harness.errors import UsageError
from harness.fuzzing.signature import Failure, Signature

if TYPE_CHECKING:
    import torch.distributed

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

P = TypeVar("P")

#: The fuzzers by name: where the class is. One is imported when it is asked for.
FUZZERS: dict[str, str] = {
    "aot": "harness.fuzzing.compiled:AotFunctions",
    "compile": "harness.fuzzing.compiled:CompiledFunctions",
    "compiled-autograd": "harness.fuzzing.compiled:CompiledBackwards",
    "export": "harness.fuzzing.compiled:ExportedFunctions",
    "inductor": "harness.fuzzing.compiled:InductorFunctions",
    "collectives": "harness.fuzzing.collectives:CollectivePrograms",
    "ddp": "harness.fuzzing.ddp.hunted:DdpPrograms",
    "dtensor": "harness.fuzzing.dtensors.hunted:DTensorPrograms",
    "dtensor-pairs": "harness.fuzzing.dtensors.hunted:DTensorPairPrograms",
    "fsdp": "harness.fuzzing.fsdp.hunted:FsdpPrograms",
    "fsdp1": "harness.fuzzing.fsdp1.hunted:Fsdp1Programs",
    "steps": "harness.fuzzing.steps.hunted:StepPrograms",
    "stores": "harness.fuzzing.stores.hunted:StorePrograms",
    "views": "harness.fuzzing.views:ViewPrograms",
}


class Rejected(unittest.SkipTest):
    """A program that says nothing, because what it is compared with refuses it, too; it is not counted."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program runs: a rank of ``world_size``, and an empty store that its ranks share.

    The default process group is there, of backend gloo, and is kept from program to program.
    """

    rank: int
    world_size: int
    store: torch.distributed.Store


class Hunted(ABC, Generic[P]):
    """A fuzzer whose programs are values of type ``P``: hashable, and equal where they are the same."""

    #: The name for ``--fuzzer``.
    name: ClassVar[str]
    #: The fuzzer whose bugs these are, where programs of another are drawn in another way; itself else.
    variant_of: ClassVar[str] = ""
    #: Seconds that a program may take. One that takes more is a hang.
    timeout_s: ClassVar[float] = 30.0
    #: Modules that take long to import, and are imported once for all ranks.
    imports: ClassVar[tuple[str, ...]] = ()
    #: Whether a process that ran a program can run the next one.
    pooled: ClassVar[bool] = True

    @abstractmethod
    def drawn(self, seed: int) -> Iterable[P]:
        """Programs that follow from ``seed``: one, many or without end; a hunt takes a hundred at most."""

    @abstractmethod
    def script(self, program: P) -> str:
        """A script that needs torch alone (and numpy), which ends with exit code 0 if all is right.

        A fuzzer of this project's own code needs that, too. It ends by AssertionError where torch gives
        something wrong; else as torch lets it end. It starts its own ranks.
        """

    @abstractmethod
    def simpler(self, program: P) -> Iterator[P]:
        """Programs that are simpler by one change, the simplest first. No change undoes another."""

    def changed(self, program: P, choice: random.Random) -> P:
        """A program that differs from ``program`` a little; UsageError where the fuzzer makes none."""
        raise UsageError(f"fuzzer {self.name} draws each program anew")

    def world_size(self, program: P) -> int:
        """How many ranks the program runs on."""
        return 1

    def run(self, program: P, place: Place) -> None:
        """Runs the program in a rank and checks what comes of it by an independent oracle.

        AssertionError for a wrong result, whose first line says what kind of difference it is; ``Rejected``,
        in every rank, for a program that says nothing; any other exception is torch's. By default it executes
        ``script``, which is right where a program has one rank.
        """
        assert place.world_size == 1, "a program for several ranks has a run() of its own"
        module, own, name = _main_module(), sys.modules["__main__"], f"<program of {self.name}>"
        vars(module).clear()
        vars(module).update(__name__="__main__", __file__=name)
        sys.modules["__main__"] = module  # where compilers look for what a script defines
        try:
            exec(compile(self.script(program), name, "exec"), vars(module))
        finally:
            sys.modules["__main__"] = own

    def structure(self, program: P) -> str:
        """What the program is made of, without its numbers: two bugs of different structure are two."""
        return re.sub(r"\d+", "#", repr(program))

    def signature(self, program: P, failure: Failure) -> Signature:
        """By what the book, and a hunt's other finds, are asked about a program that fails."""
        return Signature(self.variant_of or self.name, failure, self.structure(program))

    def to_json(self, program: P) -> Any:
        """Encodes a program as JSON-able values, from which ``from_json`` restores it."""
        return program

    def from_json(self, value: Any) -> P:
        """Restores a program from the values of ``to_json``."""
        found: P = value
        return found


@functools.cache
def _main_module() -> types.ModuleType:
    """The main module of all programs of this process: dynamo keeps the first one that it has looked up."""
    return types.ModuleType("__main__")


def hunted(name: str) -> Hunted[Any]:
    """The fuzzer of a name; UsageError where there is none."""
    if name not in FUZZERS:
        raise UsageError(f"there is no fuzzer {name!r}; there are {', '.join(sorted(FUZZERS))}")
    return imported(FUZZERS[name])


def imported(reference: str) -> Hunted[Any]:
    """The fuzzer of a class, given as ``module:Class``; a rank need not know its name."""
    module, _, qualname = reference.partition(":")
    found: Hunted[Any] = getattr(importlib.import_module(module), qualname)()
    return found


def reference_of(fuzzer: Hunted[Any]) -> str:
    """The class of a fuzzer, as ``module:Class``."""
    return f"{type(fuzzer).__module__}:{type(fuzzer).__qualname__}"
