"""``ViewPrograms``: programs of views and writes through AOTAutograd, as a fuzzer of the hunt.

They are those of ``aot.test_view_programs``, by the same signatures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import harness
from harness.cases.hypothesis_draws import same_draws
from harness.fuzzing.compiled import renamed
from harness.fuzzing.hunted import Hunted, Place, Rejected
from harness.graphs import MismatchError, ViewProgram, view_programs
from harness.graphs.front_ends import AotFunction
from harness.graphs.unrecorded_writes import in_words
from harness.graphs.view_program_changes import changed

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: Programs by what their arguments have to do with each other: what ``view_programs`` is to draw.
DRAWS: dict[str, dict[str, bool]] = {
    "private": {"shared": False, "no_grad": False},
    "no_grad": {"shared": False},
    "shared": {"metadata": False, "no_grad": False},
}
# Programs that a seed stands for, at most.
BATCH = 16
# How often a program is changed until eager runs the changed one.
TRIES = 20


@dataclass(frozen=True, slots=True)
class ViewCase:
    """A program, which of ``DRAWS`` it is of, and whether its sizes are symbols."""

    program: ViewProgram
    draw: str
    dynamic: bool

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``verify_aot``. Writes under ``no_grad`` stay in the graph."""
        kept = {"keep_input_mutations": True} if self.draw == "no_grad" else {}
        return {"dynamic": self.dynamic, **kept}


class ViewPrograms(Hunted[ViewCase]):
    """Functions whose arguments are views or are written to, without dynamo: an internal entry."""

    name = "views"
    timeout_s = 60.0
    imports = ("torch._dynamo", "functorch.compile")

    def drawn(self, seed: int) -> Iterator[ViewCase]:
        """Programs of one draw that eager can run, backwards included."""
        choice = random.Random(f"{self.name} {seed}")
        draw, dynamic = choice.choice(sorted(DRAWS)), choice.random() < 0.5
        for program in same_draws(view_programs(**DRAWS[draw]), BATCH, seed=seed):
            if program.runs_in_eager():
                yield ViewCase(program, draw, dynamic)

    def changed(self, program: ViewCase, choice: random.Random) -> ViewCase:
        """A program with one or two statements, arguments or outputs that are others, or other sizes."""
        dynamic = program.dynamic if choice.random() < 0.7 else not program.dynamic
        for _ in range(TRIES):
            other = changed(program.program, choice, **DRAWS[program.draw])
            if other.runs_in_eager():
                return ViewCase(other, program.draw, dynamic)
        return program

    def run(self, program: ViewCase, place: Place) -> None:
        """Verifies it; of a difference all that it says is told."""
        if not program.program.runs_in_eager():
            raise Rejected("eager does not run it")
        error = program.program.failure(front_end=AotFunction(), **program.options)
        if error is not None:
            raise told(error)

    def script(self, program: ViewCase) -> str:
        """The function, its inputs, and the call of this project that verifies it."""
        tree = str(Path(harness.__file__).resolve().parents[1])
        text = program.program.script(front_end=AotFunction(), test_mutation=True, **program.options)
        return f"import sys\n\nsys.path.insert(0, {tree!r})\n\n{text}"

    def simpler(self, program: ViewCase) -> Iterator[ViewCase]:
        """Programs with a statement or an output less that eager can run."""
        for smaller in program.program.smaller():
            if smaller.runs_in_eager():
                yield replace(program, program=smaller)

    def structure(self, program: ViewCase) -> str:
        """The statements, the arguments, the options: as the book is asked about them."""
        return structure(program.program, program.options)

    def to_json(self, program: ViewCase) -> Any:
        """As nested lists and strings."""
        return asdict(program)

    def from_json(self, value: Any) -> ViewCase:
        """From what ``to_json`` made."""
        fields = {name: tuple(lines) for name, lines in value["program"].items()}
        return ViewCase(ViewProgram(**fields), value["draw"], value["dynamic"])


def told(error: Exception) -> Exception:
    """An error of a verification; in place of a difference's headline all that it says, in one line."""
    if not isinstance(error, MismatchError):
        return error
    found = AssertionError(" ".join("; ".join(map(str, error.differences)).split()))
    found.__cause__ = error
    return found


def structure(program: ViewProgram, options: dict[str, Any]) -> str:
    """The statements, the arguments, the options of ``verify_aot`` but for the front end.

    Beside the options stand written arguments of which eager has no backward, and those that are written to
    where autograd records nothing.
    """
    body = f"{'; '.join(program.body)}; return {', '.join(program.outputs)}"
    said = [f"{name}={value}" for name, value in options.items() if name != "front_end"]
    lost = program.without_backward()
    said += [f"no backward in eager through {' and '.join(lost)}"] if lost else []
    said += filter(None, (in_words(program.unrecorded_writes()),))
    return f"{renamed(body)} | {renamed(', '.join(program.arguments))} | {', '.join(said)}"
