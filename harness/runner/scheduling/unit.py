"""``Unit`` and ``Demand``: one test, and what it takes while it runs, as the runner plans with them.

The zygote makes units of the tests in the modules that it has imported, and sends them as JSON to the
controller, which never imports a test module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness import conformance_features
from harness.conformance_features import Feature
from harness.errors import ProtocolError

# Why a unit stands in for its module: that cannot be imported, or skips itself.
BROKEN = "broken"
SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Demand:
    """What a test takes of the machine while it runs.

    ``ranks`` is its largest world size (1 for a single-process test), ``cpu_slots`` how many of ``--jobs`` it
    occupies, ``memory_mb`` 0 where nothing is declared. An ``exclusive`` test runs alone on the machine.
    ``group`` is the group of a configuration file whose limit of tests at once it counts for, or "".
    ``hosts`` is on how many hosts at least its ranks have to be.
    """

    ranks: int = 1
    cpu_slots: int = 1
    accelerators: int = 0
    memory_mb: int = 0
    exclusive: bool = False
    group: str = ""
    hosts: int = 1

    def __post_init__(self) -> None:
        for name, least in (
            ("ranks", 1),
            ("cpu_slots", 1),
            ("accelerators", 0),
            ("memory_mb", 0),
            ("hosts", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; write {least} or more")


@dataclass(frozen=True, slots=True)
class Unit:
    """One test, or the stand-in for a module that does not import or that skips itself.

    ``id`` is the unittest id, the module's name for a stand-in, and ``module`` the module that the test was
    loaded from. ``case`` is the class's qualified name, dotted where it is nested; where the class is from
    another module, that module's name comes before it. ``expected_s`` are seconds without fixtures, None
    until timings have been looked up. ``timeout_s`` None means the run's default. ``supervised`` is set where
    the supervisor of the test's ranks keeps the deadline. ``fixtures`` are the keys of the fixtures that the
    test needs, outermost first: the module's name where the module has setUpModule or tearDownModule,
    ``class_id`` where the class has setUpClass or tearDownClass. The seconds of fixtures are in the timings.
    ``shares`` is the class or module whose pytest fixtures the test shares with others, which then run in one
    batch; "" for none. ``file`` and ``line`` are where the method is defined, or ``""`` and 0. ``imported``
    is set where the module imports the test from another module. ``environ`` are variables that a
    configuration file sets for this test's process. ``feature`` is what the test tries, for the report about
    a target. ``stands_in`` is ``BROKEN`` or ``SKIPPED`` where the unit stands for its whole module, else "".
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
    shares: str = ""
    file: str = ""
    line: int = 0
    imported: bool = False
    environ: tuple[tuple[str, str], ...] = ()
    feature: Feature | None = None
    stands_in: str = ""

    @property
    def class_id(self) -> str:
        """The class's name with the module that defines it; also the key of its fixture."""
        return split_id(self.id)[0]

    @property
    def name(self) -> str:
        """The id without the module; the whole id where the class is from another module."""
        return self.id.removeprefix(self.module + ".")

    @property
    def broken(self) -> bool:
        """True where the unit stands for a module that does not import."""
        return self.stands_in == BROKEN


def split_id(test_id: str) -> tuple[str, str]:
    """Splits an id into its class and its method, whose parameters (``test_x[0.5]``) may have dots.

    The class has its module before it; it is the module alone for a function.
    """
    name, bracket, parameters = test_id.partition("[")
    owner, _, method = name.rpartition(".")
    return owner, f"{method}{bracket}{parameters}"


def of_id(test_id: str, module: str, **fields: Any) -> Unit:
    """The unit of a test with this id that was loaded from ``module``; ``fields`` are those of ``Unit``."""
    case, method = split_id(test_id.removeprefix(module + "."))
    return Unit(id=test_id, module=module, case=case, method=method, **fields)


def of_module(module: str, why: str) -> Unit:
    """The unit that stands in for a module; ``why`` is ``BROKEN`` or ``SKIPPED``."""
    return Unit(id=module, module=module, case="", method="", stands_in=why)


def to_json(unit: Unit) -> dict[str, Any]:
    """The unit as JSON values; ``from_json`` reverses it without loss."""
    return dataclasses.asdict(unit)


def from_json(value: Mapping[str, Any]) -> Unit:
    """The unit in the result of ``to_json``; ProtocolError where the value is not a unit."""
    try:
        demand = Demand(**value["demand"])
        environ = tuple((str(name), str(text)) for name, text in value.get("environ", ()))
        changed = {"demand": demand, "fixtures": tuple(value["fixtures"]), "environ": environ}
        if value.get("feature") is not None:
            changed["feature"] = conformance_features.from_json(list(value["feature"].values()))
        return Unit(**{**value, **changed})
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not a unit: {error!r}") from error


def duplicates(ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that occur more than once, sorted."""
    seen: set[str] = set()
    twice: set[str] = set()
    for test_id in ids:
        (twice if test_id in seen else seen).add(test_id)
    return tuple(sorted(twice))
