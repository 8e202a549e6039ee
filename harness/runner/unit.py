"""A unit: one test as the runner plans with it, known before anything of it runs.

Discovery makes units in a process that has imported the test modules and sends them as JSON to the
controller, which has not and never will. Everything here is a value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import ProtocolError

# unittest's own names for what a module that cannot be imported, or skips itself, has for a test.
FAILED_MODULE = "unittest.loader._FailedTest."
SKIPPED_MODULE = "unittest.loader.ModuleSkipped."


@dataclass(frozen=True, slots=True)
class Demand:
    """What a test takes while it runs.

    ``ranks`` is its largest world size (1 for a single-process test), ``cpu_slots`` how many of ``--jobs`` it
    occupies, ``memory_mb`` 0 where nothing is declared. An ``exclusive`` test has the machine for itself.
    """

    ranks: int = 1
    cpu_slots: int = 1
    accelerators: int = 0
    memory_mb: int = 0
    exclusive: bool = False

    def __post_init__(self) -> None:
        for name, least in (("ranks", 1), ("cpu_slots", 1), ("accelerators", 0), ("memory_mb", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; write {least} or more")


@dataclass(frozen=True, slots=True)
class Unit:
    """One test.

    ``id`` is the unittest id and ``module`` the one that it was loaded from. ``case`` is the class's
    qualified name, dotted where it is nested, and has its own module before it where that is another one.
    ``expected_s`` are seconds without fixtures, None until timings have been looked up; ``timeout_s`` None
    means the run's default, and ``supervised`` that the test sees to its deadline itself. ``fixtures`` are
    the keys of fixtures that it needs, outermost first: the module's name where the module has setUpModule
    or tearDownModule, ``class_id`` where the class has its own setUpClass or tearDownClass. What a fixture
    costs is in the timings. ``file`` and ``line`` are where the method is defined, or ``""`` and 0.
    ``imported`` is set where the module has the test from another module.
    """

    id: str
    module: str
    case: str
    method: str
    demand: Demand = Demand()
    expected_s: float | None = None
    slow: bool = False
    timeout_s: float | None = None
    supervised: bool = False
    fixtures: tuple[str, ...] = ()
    file: str = ""
    line: int = 0
    imported: bool = False

    @property
    def class_id(self) -> str:
        """The class's name with its own module, the key of its fixture."""
        return self.id.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The id without the module, all of it where the class is from another one."""
        return self.id.removeprefix(self.module + ".")

    @property
    def broken(self) -> bool:
        """True where the unit stands for a module that does not import."""
        return self.id == FAILED_MODULE + self.module

    @property
    def stands_in(self) -> bool:
        """True where the unit stands for a whole module, which does not import or skips itself."""
        return self.broken or self.id == SKIPPED_MODULE + self.module


def of_id(test_id: str, module: str, **fields: Any) -> Unit:
    """The unit of the unittest id of a test that was loaded from ``module``; ``fields`` as in ``Unit``."""
    case, _, method = test_id.removeprefix(module + ".").rpartition(".")
    return Unit(id=test_id, module=module, case=case, method=method, **fields)


def to_json(unit: Unit) -> dict[str, Any]:
    """The unit as JSON-able values; lossless with ``from_json``."""
    return dataclasses.asdict(unit)


def from_json(value: Mapping[str, Any]) -> Unit:
    """The unit of ``to_json``; ProtocolError where it is none."""
    try:
        demand = Demand(**value["demand"])
        return Unit(**{**value, "demand": demand, "fixtures": tuple(value["fixtures"])})
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not a unit: {error!r}") from error


def duplicates(ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that occur more than once, sorted: two tests of one id cannot be told apart in any report."""
    seen: set[str] = set()
    twice: set[str] = set()
    for test_id in ids:
        (twice if test_id in seen else seen).add(test_id)
    return tuple(sorted(twice))
