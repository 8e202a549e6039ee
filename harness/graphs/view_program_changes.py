"""``changed``: a program of views like another one, but for a statement, an argument or an output.

Around a program that a compiler gets wrong there are more of them than among fresh draws.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.graphs.programs import ViewProgram
from harness.graphs.view_program_inputs import ARGUMENTS, SHAPES, ViewInputs
from harness.graphs.view_program_lines import (
    COMPUTED,
    METADATA,
    STATEMENTS,
    VIEWS,
    WRITES,
    Lines,
    Statement,
)

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(slots=True)
class _Parts:
    """What is changed of a program, and what it may have."""

    inputs: ViewInputs
    parameters: tuple[str, ...]
    statements: list[Statement]
    outputs: list[str]
    metadata: bool
    shared: bool
    no_grad: bool

    @property
    def names(self) -> list[str]:
        return [*self.parameters, *(each.name for each in self.statements if each.makes)]

    def template(self, choice: random.Random) -> str:
        kinds = [VIEWS, WRITES, COMPUTED, *([METADATA] if self.metadata else [])]
        return choice.choice(choice.choice(kinds))

    def program(self) -> ViewProgram:
        """The program of those parts that go together."""
        setup, leaves, arguments = self.inputs.lines()
        lines = Lines(setup, arguments, self.parameters)
        for each in self.statements:
            lines.add(each)
        names = [name for name in self.outputs if name in lines.names]
        outputs = lines.outputs(names, metadata=self.metadata, shared=self.shared)
        return ViewProgram(setup, leaves, arguments, self.parameters, tuple(lines.lines), tuple(outputs))


def changed(
    program: ViewProgram,
    choice: random.Random,
    *,
    metadata: bool = True,
    shared: bool = True,
    no_grad: bool = True,
) -> ViewProgram:
    """A program that ``view_programs`` with these options could draw, one change or two from ``program``.

    Its backward may fail in eager (``ViewProgram.runs_in_eager``). What a change makes senseless is left out;
    so it may be the program itself.
    """
    statements = [Statement.of(line) for line in program.body]
    inputs = ViewInputs.of(program.setup, program.arguments)
    outputs = list(program.outputs)
    parts = _Parts(inputs, program.parameters, statements, outputs, metadata, shared, no_grad)
    for _ in range(choice.choice((1, 1, 2))):
        choice.choice(_CHANGES)(parts, choice)
    return parts.program()


def _other_template(parts: _Parts, choice: random.Random) -> None:
    """Another template of the same kind, so that what uses the statement's tensor stays."""
    if parts.statements:
        index = choice.randrange(len(parts.statements))
        old = parts.statements[index]
        kind = next(kind for kind in (VIEWS, WRITES, COMPUTED, METADATA) if old.template in kind)
        parts.statements[index] = replace(old, template=choice.choice(kind))


def _other_operands(parts: _Parts, choice: random.Random) -> None:
    if parts.statements:
        index = choice.randrange(len(parts.statements))
        first, second = choice.choices(parts.names, k=2)
        parts.statements[index] = replace(parts.statements[index], first=first, second=second)


def _another_statement(parts: _Parts, choice: random.Random) -> None:
    if len(parts.statements) < STATEMENTS:
        first, second = choice.choices(parts.names, k=2)
        name = next(name for number in range(9) if (name := f"t{number}") not in parts.names)
        no_grad = parts.no_grad and choice.random() < 0.25
        statement = Statement(parts.template(choice), first, second, no_grad, name)
        parts.statements.insert(choice.randint(0, len(parts.statements)), statement)


def _statements_swapped(parts: _Parts, choice: random.Random) -> None:
    if len(parts.statements) > 1:
        index = choice.randrange(len(parts.statements) - 1)
        parts.statements[index : index + 2] = reversed(parts.statements[index : index + 2])


def _other_base(parts: _Parts, choice: random.Random) -> None:
    bases = list(parts.inputs.bases)
    index = choice.randrange(len(bases))
    shape, grad = bases[index]
    bases[index] = (shape, not grad) if choice.random() < 0.4 else (choice.choice(SHAPES), grad)
    parts.inputs = replace(parts.inputs, bases=tuple(bases))


def _other_argument(parts: _Parts, choice: random.Random) -> None:
    if parts.shared:
        arguments = list(parts.inputs.arguments)
        index = choice.randrange(len(arguments))
        arguments[index] = (choice.randrange(len(parts.inputs.bases)), choice.choice(ARGUMENTS))
        parts.inputs = replace(parts.inputs, arguments=tuple(arguments))


def _other_output(parts: _Parts, choice: random.Random) -> None:
    name = choice.choice(parts.names)
    if choice.random() < 0.5:
        parts.outputs[choice.randrange(len(parts.outputs))] = name
    elif len(parts.outputs) < 3:
        parts.outputs.append(name)


_CHANGES: tuple[Callable[[_Parts, random.Random], None], ...] = (
    _other_template,
    _other_operands,
    _another_statement,
    _statements_swapped,
    _other_base,
    _other_argument,
    _other_output,
)
