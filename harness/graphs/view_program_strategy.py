"""``view_programs``: a hypothesis strategy for random programs of views and writes.

The first thing that a compiler of functions gets wrong is which tensors see a write: through views, of inputs
that share a storage, detached or under ``no_grad``, before and after they are returned::

    @bounded(100, phases=[Phase.generate])
    @given(view_programs())
    def test_views(program):
        program.verify(backend=my_compiler)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from harness.graphs.aliasing import overlaps_otherwise, storages
from harness.graphs.programs import ViewProgram

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: Views of ``{0}``. Not all fit all sizes; those that do not are left out of the program.
VIEWS = (
    "{0}.view(-1)",
    "{0}.t()",
    "{0}[0]",
    "{0}[1:]",
    "{0}[..., ::2]",
    "{0}.unsqueeze(0)",
    "{0}.squeeze(0)",
    "{0}.view_as({0})",
    "{0}.diagonal()",
    "{0}.expand(2, *{0}.shape)",
    "{0}.detach()",
)
#: Writes to ``{0}``, some of which read ``{1}``.
WRITES = ("{0}.mul_(2)", "{0}.add_({1})", "{0}.copy_({1})", "{0}.zero_()", "{0}[0] = 7", "{0}.sin_()")
#: In-place changes of the sizes and strides of ``{0}``.
METADATA = ("{0}.t_()", "{0}.unsqueeze_(0)", "{0}.squeeze_(0)", "{0}.transpose_(0, -1)")
#: New tensors.
COMPUTED = ("{0} + {1}", "{0} * 3", "{0} * {1}", "{0}.clone()", "{0}.sum()", "{0}.sin()")
#: How an argument is made from a tensor, from which other arguments may be made too.
ARGUMENTS = ("{0}", "{0}.view(-1)", "{0}[0]", "{0}[1:]", "{0}.t()", "{0}.detach()", "{0}[:, 0]")
SHAPES = ((4,), (2, 2), (2, 3), (3,), (1, 3))


@dataclass(frozen=True, slots=True)
class _Statement:
    """One drawn statement: a template, the indices of its two operands, and whether it is under ``no_grad``.

    ``makes``: whether the statement assigns a new tensor.
    """

    template: str
    first: int
    second: int
    no_grad: bool

    @property
    def makes(self) -> bool:
        return self.template in VIEWS or self.template in COMPUTED

    def line(self, name: str) -> str:
        """The statement as a line. Views are never under ``no_grad``: eager would take them for leaves."""
        line = f"{name} = {self.template}" if self.makes else self.template
        guarded = self.no_grad and self.template not in VIEWS + METADATA
        return f"with torch.no_grad(): {line}" if guarded else line


@st.composite
def view_programs(
    draw: st.DrawFn,
    *,
    metadata: bool = True,
    shared: bool = True,
    no_grad: bool = True,
    statements: int = 6,
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
    setup, leaves, arguments = draw(_inputs(shared))
    parameters = tuple("abc"[: len(arguments)])
    drawn = draw(st.lists(_statements(metadata, no_grad), max_size=statements))
    body, tensors = _body(setup, arguments, parameters, drawn)
    chosen = draw(st.lists(st.integers(0, 8), min_size=1, max_size=3))
    names = [list(tensors)[-1 - index % len(tensors)] for index in chosen]
    outputs = _apart(names, tensors, parameters) if shared else names
    if metadata:
        outputs = [name for name in outputs if name not in parameters or tensors[name].requires_grad]
    if not outputs:
        body, outputs = (*body, "last = a * 3"), ["last"]
    return ViewProgram(setup, leaves, arguments, parameters, body, tuple(outputs))


def _apart(names: Sequence[str], tensors: Mapping[str, torch.Tensor], parameters: Sequence[str]) -> list[str]:
    """``names`` without views of shared arguments, and with one at most per tensor made in the function."""
    held = [storages(tensors[name]) for name in parameters]
    private = set().union(*(own for own in held if held.count(own) == 1))
    shared = set().union(*held) - private
    taken: set[Hashable] = set()
    kept = []
    for name in names:
        own = storages(tensors[name]) - private
        if name in parameters or not own & (taken | shared):
            kept.append(name)
        taken |= own
    return kept


def _statements(metadata: bool, no_grad: bool) -> st.SearchStrategy[_Statement]:
    kinds = [VIEWS, WRITES, COMPUTED] + ([METADATA] if metadata else [])
    return st.builds(
        _Statement,
        st.one_of(*map(st.sampled_from, kinds)),
        st.integers(0, 5),
        st.integers(0, 5),
        st.sampled_from([False, False, False, no_grad]),
    )


@st.composite
def _inputs(draw: st.DrawFn, shared: bool) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Setup lines, leaves and arguments. A leaf is never an argument, since it cannot be written to."""
    setup, leaves = [], []
    made = draw(st.lists(st.tuples(st.sampled_from(SHAPES), st.booleans()), min_size=1, max_size=2))
    for index, (shape, grad) in enumerate(made):
        size = torch.Size(shape).numel()
        setup.append(f"x{index} = torch.arange({index * 10 + 1.0}, {index * 10 + 1 + size}).reshape({shape})")
        setup[-1] += ".clone()" + (".requires_grad_()" if grad else "")
        setup.append(f"y{index} = x{index} * 1")
        leaves.append(f"x{index}")
    if not shared:
        return tuple(setup), tuple(leaves), tuple(f"y{index}" for index in range(len(made)))
    choice = st.tuples(st.integers(0, len(made) - 1), st.sampled_from(ARGUMENTS))
    arguments = []
    for index, template in draw(st.lists(choice, min_size=1, max_size=3)):
        argument = template.format(f"y{index}")
        arguments.append(argument if _holds(setup, argument) else f"y{index}")
    return tuple(setup), tuple(leaves), tuple(arguments)


def _holds(setup: Sequence[str], expression: str) -> bool:
    scope: dict[str, Any] = {"torch": torch}
    exec("\n".join(setup), scope)
    return _executed(expression, scope)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride()


def _has_views(name: str, names: Sequence[str], scope: Mapping[str, Any]) -> bool:
    own = storages(scope[name])
    return any(own & storages(scope[other]) for other in names if other != name)


def _executed(line: str, scope: dict[str, Any]) -> bool:
    """Whether ``line`` ran without an error of eager."""
    try:
        exec(line, scope)
    except (RuntimeError, IndexError):
        return False
    return True


def _body(
    setup: Sequence[str], arguments: Sequence[str], parameters: Sequence[str], drawn: Sequence[_Statement]
) -> tuple[tuple[str, ...], dict[str, torch.Tensor]]:
    """The statements that eager can run in sequence, and all tensors by name."""
    scope: dict[str, Any] = {"torch": torch}
    assignment = f"{', '.join(parameters)}, = {', '.join(arguments)},"
    exec("\n".join([*setup, assignment]), scope)
    names = list(parameters)
    lines: list[str] = []
    for statement in drawn:
        choice = list(parameters) if statement.template in METADATA else names
        first = choice[-1 - statement.first % len(choice)]
        second = names[-1 - statement.second % len(names)]
        if statement.template in METADATA and _has_views(first, names, scope):
            continue
        reads = statement.template in WRITES and "{1}" in statement.template
        if reads and overlaps_otherwise(scope[first], scope[second]):
            continue
        name = f"t{len(lines)}"
        line = statement.line(name).format(first, second)
        before = _layout(scope[first])
        if not _executed(line, scope):
            continue
        if statement.template in METADATA and _layout(scope[first]) == before:
            continue
        lines.append(line)
        names += [name] if statement.makes else []
    return tuple(lines), {name: scope[name] for name in names}
