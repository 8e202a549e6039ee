"""The test classes that play a case: on pooled ranks a right program, on fresh ranks a mutated one."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.fuzzing.case import ProgramTestCase
from harness.fuzzing.mutation import Mutation, from_json, to_json
from harness.fuzzing.program import Program
from harness.fuzzing.program import from_json as program_of
from tools.communication_fuzzing.case import WORLD_SIZES, FuzzCase


class _Played(ProgramTestCase):
    """A case that plays the program which it is given before it runs."""

    @classmethod
    def backend_str(cls) -> str:
        """The backend of all groups."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The device of all tensors."""
        return "cpu"

    def give(self, case: FuzzCase) -> None:
        """Takes the program that is played next."""
        self._program = case.program

    def test_program(self, program: Program) -> None:
        """Plays the program in a rank."""
        self.run_program(program)


class _Mutated(_Played):
    """A case whose fresh ranks play a mutated program on the groups that it uses."""

    rank_modes = ("fresh",)

    _mutation: Mutation | None = None
    _shipped_mutation: ClassVar[Mutation | None] = None

    def give(self, case: FuzzCase) -> None:
        """Takes the program and the mutation that are played next."""
        super().give(case)
        self._mutation = case.mutation

    def _run_arguments(self, world_size: int) -> dict[str, Any]:
        assert self._mutation is not None, "a mutated program was given"
        return {**super()._run_arguments(world_size), "mutation": to_json(self._mutation)}

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        cls._shipped_mutation = from_json(kwargs.pop("mutation"))
        super()._run(rank, test_name, file_name, parent_pipe, **kwargs)

    @classmethod
    def program_groups(cls, world_size: int) -> tuple[tuple[int, ...], ...]:
        """The groups that the program uses; the parent makes none."""
        return () if cls._shipped is None else program_of(cls._shipped).groups

    def test_program(self, program: Program) -> None:
        """Plays the mutated program in a rank."""
        self.run_program(program, self._shipped_mutation)


def _classes(base: type[_Played], name: str) -> dict[str, type[_Played]]:
    return {
        f"{name}{size}": type(f"{name}{size}", (base,), {"__module__": __name__, "world_size": size})
        for size in WORLD_SIZES
    }


_CLASSES = {**_classes(_Played, "Right"), **_classes(_Mutated, "Mutated")}
globals().update(_CLASSES)


def subject_of(case: FuzzCase) -> _Played:
    """A test that plays a case."""
    kind = "Right" if case.mutation is None else "Mutated"
    test = _CLASSES[f"{kind}{case.program.world_size}"]("test_program")
    test.give(case)
    return test
