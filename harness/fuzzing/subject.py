"""The test classes that play one program of a fuzzer, on pooled ranks with a default group, or fresh ones."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import torch.distributed as dist

from harness.cases.continuous import MultiProcContinuousTest
from harness.fuzzing.hunted import Hunted, Place, imported, reference_of

#: The world sizes that a program may ask for.
WORLD_SIZES = range(1, 9)
# Numbers the programs of this process, because their ranks use one store for all of them.
_turns = itertools.count()


class _Played(MultiProcContinuousTest):
    """A case that plays the program which it is given before it runs."""

    _given: dict[str, Any] | None = None
    _shipped: ClassVar[dict[str, Any]] = {}

    @classmethod
    def backend_str(cls) -> str:
        """The backend of the default group."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The device of all tensors."""
        return "cpu"

    def _imports_of_ranks(self) -> list[str]:
        assert self._given is not None, "a program was given"
        return [*super()._imports_of_ranks(), *imported(self._given["fuzzer"]).imports]

    def _run_arguments(self, world_size: int) -> dict[str, Any]:
        assert self._given is not None, "a program was given"
        return {**super()._run_arguments(world_size), "given": {**self._given, "turn": next(_turns)}}

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        cls._shipped = kwargs.pop("given")
        super()._run(rank, test_name, file_name, parent_pipe, **kwargs)

    def test_program(self) -> None:
        """Plays the program in a rank."""
        given = type(self)._shipped
        fuzzer = imported(given["fuzzer"])
        store = dist.distributed_c10d._get_default_store()
        board = dist.PrefixStore(f"program {given['turn']}", store)
        fuzzer.run(fuzzer.from_json(given["program"]), Place(self.rank, int(self.world_size), board))


class _Pooled(_Played):
    rank_modes = ("pooled",)


class _Fresh(_Played):
    rank_modes = ("fresh",)


def _class(base: type[_Played], size: int) -> type[_Played]:
    name = f"{base.__name__.strip('_')}{size}"
    return type(name, (base,), {"__module__": __name__, "__qualname__": name, "world_size": size})


_CLASSES = {(base is _Pooled, size): _class(base, size) for base in (_Pooled, _Fresh) for size in WORLD_SIZES}
globals().update({each.__name__: each for each in _CLASSES.values()})


def subject_of(fuzzer: Hunted[Any], program: Any) -> _Played:
    """A test that plays a program of a fuzzer."""
    test = _CLASSES[fuzzer.pooled, fuzzer.world_size(program)]("test_program")
    test._given = {"fuzzer": reference_of(fuzzer), "program": fuzzer.to_json(program)}
    return test
