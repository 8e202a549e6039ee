"""Splits the id that unittest gives a test, a fixture or a failed import into module, class and method."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What unittest calls a failure of a fixture: "setUpClass (package.module.Case)".
_FIXTURE = re.compile(r"^(?P<fixture>(?:setUp|tearDown)(?P<level>Class|Module)) \((?P<owner>.+)\)$")
# What unittest calls a module that could not be imported: "unittest.loader._FailedTest.package.module".
_NOT_IMPORTED = "unittest.loader._FailedTest."


@dataclass(frozen=True, slots=True)
class TestName:
    """The parts of an id; ``case`` is "" for a fixture or failed import of a whole module."""

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
        parts = self.module.split(".")
        return parts[1] if parts[0] == "suites" and len(parts) > 1 else parts[0]


def parse_id(test_id: str) -> TestName:
    """The parts of any id that unittest makes, also of fixtures and failed imports. Only ``case`` may be "".

    Dots in the parameters of a name (``test_x[0.5]``, ``test_x (p=0.5)``) are part of the method.
    """
    fixture = _FIXTURE.match(test_id)
    if fixture:
        return _fixture(fixture["fixture"], fixture["owner"], fixture["level"] == "Module")
    if test_id.startswith(_NOT_IMPORTED):
        return TestName(test_id.removeprefix(_NOT_IMPORTED), "", "import")
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
