"""``view_programs``: a hypothesis strategy for random programs of views and writes.

The first thing that a compiler of functions gets wrong is which tensors see a write: through views, of inputs
that share a storage, detached or under ``no_grad``, before and after they are returned::

    @bounded(100, phases=[Phase.generate])
    @given(view_programs())
    def test_views(program):
        program.verify(backend=my_compiler)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from harness.graphs.programs import ViewProgram
from harness.graphs.view_program_inputs import ARGUMENTS, PARAMETERS, SHAPES, ViewInputs
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


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A statement: a template, indices of its operands from the last name, whether under ``no_grad``."""

    template: str
    first: int
    second: int
    no_grad: bool


@st.composite
def view_programs(
    draw: st.DrawFn,
    *,
    metadata: bool = True,
    shared: bool = True,
    no_grad: bool = True,
    statements: int = STATEMENTS,
) -> ViewProgram:
    """Programs of up to ``statements`` lines on one to three arguments, which eager can run.

    ``metadata``: whether some statements change an argument's sizes or strides in place. ``shared``: whether
    arguments may share a storage, as views or as the same tensor. ``no_grad``: whether some statements are
    under ``no_grad``.

    Some programs are not drawn, because torch gets them wrong whatever the compiler is: in-place changes of
    metadata of tensors that the function made or that have views; beside such changes, outputs that are
    arguments without grad; with shared arguments, outputs that are views of them (pytorch/pytorch#198095),
    and two outputs in the storage of one tensor that the function made. Nor are writes of which
    eager's result depends on an order: they read another view of what they write.
    """
    setup, leaves, arguments = draw(_inputs(shared)).lines()
    parameters = tuple(PARAMETERS[: len(arguments)])
    drawn = draw(st.lists(_drawn(metadata, no_grad), max_size=statements))
    lines = _lines(setup, arguments, parameters, drawn)
    chosen = draw(st.lists(st.integers(0, 8), min_size=1, max_size=3))
    names = [lines.names[-1 - index % len(lines.names)] for index in chosen]
    outputs = lines.outputs(names, metadata=metadata, shared=shared)
    return ViewProgram(setup, leaves, arguments, parameters, tuple(lines.lines), tuple(outputs))


def _drawn(metadata: bool, no_grad: bool) -> st.SearchStrategy[_Drawn]:
    kinds = [VIEWS, WRITES, COMPUTED] + ([METADATA] if metadata else [])
    return st.builds(
        _Drawn,
        st.one_of(*map(st.sampled_from, kinds)),
        st.integers(0, 5),
        st.integers(0, 5),
        st.sampled_from([False, False, False, no_grad]),
    )


@st.composite
def _inputs(draw: st.DrawFn, shared: bool) -> ViewInputs:
    bases = draw(st.lists(st.tuples(st.sampled_from(SHAPES), st.booleans()), min_size=1, max_size=2))
    if not shared:
        return ViewInputs(tuple(bases), tuple((index, ARGUMENTS[0]) for index in range(len(bases))))
    choice = st.tuples(st.integers(0, len(bases) - 1), st.sampled_from(ARGUMENTS))
    return ViewInputs(tuple(bases), tuple(draw(st.lists(choice, min_size=1, max_size=len(PARAMETERS)))))


def _lines(
    setup: Sequence[str], arguments: Sequence[str], parameters: Sequence[str], drawn: Sequence[_Drawn]
) -> Lines:
    """The drawn statements that a program may have."""
    lines = Lines(setup, arguments, parameters)
    for each in drawn:
        choice = parameters if each.template in METADATA else lines.names
        first = choice[-1 - each.first % len(choice)]
        second = lines.names[-1 - each.second % len(lines.names)]
        lines.add(Statement(each.template, first, second, each.no_grad, f"t{len(lines.lines)}"))
    return lines
