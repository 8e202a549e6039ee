"""Splits the id of a test, a fixture or a module that did not import into module, class and method."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What unittest calls a failure of a fixture: "setUpClass (package.module.Case)".
_FIXTURE = re.compile(r"^(?P<fixture>(?:setUp|tearDown)(?P<level>Class|Module)) \((?P<owner>.+)\)$")


@dataclass(frozen=True, slots=True)
class TestName:
    """The parts of an id; ``case`` is "" for a fixture of a whole module and for a function."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    module: str
    case: str
    method: str

    @property
    def classname(self) -> str:
        """The module and the class, joined by a dot."""
        return f"{self.module}.{self.case}" if self.case else self.module

    @property
    def suite(self) -> str:
        """The package below ``suites`` (``c10d``), or the first name of the module."""
        parts = self.classname.split(".")
        return parts[1] if parts[0] == "suites" and len(parts) > 1 else parts[0]


def parse_id(test_id: str) -> TestName:
    """The parts of the id of a test, or of a fixture as unittest calls it. Only ``case`` may be "".

    The last names of a module that did not import count as class and method.
    Dots in the parameters of a name (``test_x[0.5]``, ``test_x (p=0.5)``) are part of the method.
    """
    fixture = _FIXTURE.match(test_id)
    if fixture:
        return _fixture(fixture["fixture"], fixture["owner"], fixture["level"] == "Module")
    name, parameters = _split_parameters(test_id)
    path = name.split(".")
    if len(path) < 2 or "" in path:
        return TestName(test_id or "?", "", test_id or "?")
    return TestName(".".join(path[:-2]) or path[0], path[-2] if len(path) > 2 else "", path[-1] + parameters)


def _fixture(name: str, owner: str, whole_module: bool) -> TestName:
    module, _, case = owner.rpartition(".")
    return TestName(owner, "", name) if whole_module or not module else TestName(module, case, name)


def _split_parameters(test_id: str) -> tuple[str, str]:
    start = re.search(r"[\[( ]", test_id)
    return (test_id, "") if start is None else (test_id[: start.start()], test_id[start.start() :])
