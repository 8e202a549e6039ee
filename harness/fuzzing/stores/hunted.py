"""``StorePrograms``: random calls of stores' clients as a fuzzer of the hunt, and their scripts."""

from __future__ import annotations

import inspect
import itertools
import random
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from harness.fuzzing.hunted import Hunted, Place
from harness.fuzzing.stores import linearizability, model, playing
from harness.fuzzing.stores.draw import drawn
from harness.fuzzing.stores.program import StoreProgram, from_json, to_json
from harness.fuzzing.stores.shrink import simpler

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

_ALONE = """\
if __name__ == "__main__":
    check(KIND, WAY, CLIENTS, CALLS)
"""
_ON_RANKS = """\
def main(rank, path):
    board = dist.FileStore(path, CLIENTS)
    check(KIND, WAY, CLIENTS, CALLS, rank, board)


if __name__ == "__main__":
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "board")
        torch.multiprocessing.start_processes(main, (path,), nprocs=CLIENTS, start_method="fork")
"""


class StorePrograms(Hunted[StoreProgram]):
    """Calls of stores, against a model of what a store is."""

    name = "stores"
    timeout_s = 30.0

    def drawn(self, seed: int) -> Iterator[StoreProgram]:
        """Programs without end."""
        choice = random.Random(seed)
        return (drawn(choice.getrandbits(48)) for _ in itertools.count())

    def world_size(self, program: StoreProgram) -> int:
        """A rank for each client where they are ranks, else one."""
        return program.clients if program.way == "ranks" else 1

    def run(self, program: StoreProgram, place: Place) -> None:
        """Makes the calls, or those of one client, and compares them with the model."""
        playing.check(program.kind, program.way, program.clients, _calls(program), place.rank, place.store)

    def script(self, program: StoreProgram) -> str:
        """The program as a script in plain torch."""
        values = (
            f"KIND, WAY, CLIENTS = {program.kind!r}, {program.way!r}, {program.clients}",
            f"CALLS = {_calls(program)}",
        )
        parts = [_body(each) for each in (model, linearizability, playing)]
        main = _ON_RANKS if program.way == "ranks" else _ALONE
        return "\n\n".join(("from __future__ import annotations\n", *parts, "\n".join(values), main))

    def simpler(self, program: StoreProgram) -> Iterator[StoreProgram]:
        """Programs with fewer calls or clients, or plainer values."""
        return simpler(program)

    def structure(self, program: StoreProgram) -> str:
        """The kind of store, how its clients run, and the methods, by client where they run side by side."""
        if program.way == "turns":
            return "; ".join([program.kind, program.way, *(each.method for each in program.calls)])
        own = ["; ".join(c.method for c in program.calls if c.client == n) for n in range(program.clients)]
        return "; ".join([program.kind, program.way, " || ".join(own)])

    def to_json(self, program: StoreProgram) -> dict[str, Any]:
        """A program as values of JSON."""
        return to_json(program)

    def from_json(self, value: Any) -> StoreProgram:
        """The program that ``to_json`` wrote."""
        return from_json(value)


def _calls(program: StoreProgram) -> list[tuple[int, str, tuple[Any, ...]]]:
    return [(each.client, each.method, each.arguments) for each in program.calls]


def _body(module: ModuleType) -> str:
    """The source of a module without its docstring and without imports of this project."""
    text = inspect.getsource(module)
    text = text.partition("from __future__ import annotations\n")[2]
    return re.sub(r"(?m)^from harness\S* import .*\n", "", text).strip("\n") + "\n"
