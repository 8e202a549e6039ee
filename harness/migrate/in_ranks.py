"""Has each rank import a test module itself, where the module does something else in a child process.

Upstream's ranks import the module as children. Those of harness are forked after its import, unless the
test's class says ``import_in_ranks = True``, which is written into the classes of such a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
from libcst import metadata
from libcst.helpers import get_full_name_for_node

from harness.dropin.child_code import asking_line

ATTRIBUTE = "import_in_ranks"
# The classes of harness, under upstream's names too, whose ranks are processes.
RANK_CASES = frozenset({
    *("MultiProcessTestCase", "DistributedTestBase", "MultiProcContinuousTest"),
    *("DynamoDistributedMultiProcTestCase", "FSDPTest", "FSDPTestContinuous"),
    *("DTensorTestBase", "DTensorContinuousTestBase"),
    *("LocalDTensorTestBase", "LocalDTensorOpTestBase", "LocalDTensorContinuousTestBase"),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Added:
    """A class that got the attribute, with its line; ``asked`` is the line by which the module differs."""

    line: int
    name: str
    asked: int


def add_attribute(module: cst.Module) -> tuple[cst.Module, tuple[Added, ...]]:
    """The module with ``import_in_ranks = True`` in its test classes, if it asks which process it is in.

    A class that has the attribute is left as it is, as is one that inherits it from a class of the file.
    """
    asked = asking_line(module.code)
    if asked is None:
        return module, ()
    adder = _Adder(asked)
    return metadata.MetadataWrapper(module, unsafe_skip_copy=True).visit(adder), tuple(adder.added)


class _Adder(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (metadata.PositionProvider,)

    def __init__(self, asked: int) -> None:
        super().__init__()
        self._asked = asked
        self.added: list[Added] = []

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        names = {(get_full_name_for_node(base.value) or "").rpartition(".")[2] for base in updated_node.bases}
        body = updated_node.body
        if not names & RANK_CASES or not isinstance(body, cst.IndentedBlock) or _has_attribute(body):
            return updated_node
        line = self.get_metadata(metadata.PositionProvider, original_node.name).start.line
        self.added.append(Added(line, updated_node.name.value, self._asked))
        first = int(updated_node.get_docstring(clean=False) is not None)
        rest = _apart(body.body[first:])
        return updated_node.with_changes(body=body.with_changes(body=[*body.body[:first], _STATEMENT, *rest]))


_STATEMENT = cst.SimpleStatementLine(
    [cst.Assign([cst.AssignTarget(cst.Name(ATTRIBUTE))], cst.Name("True"))],
    trailing_whitespace=cst.TrailingWhitespace(
        cst.SimpleWhitespace("  "), cst.Comment("# this module acts otherwise in a child process")
    ),
)


def _apart(statements: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """The statements, with an empty line before a method that comes first."""
    found = list(statements)
    if found and isinstance(found[0], cst.FunctionDef) and not found[0].leading_lines:
        found[0] = found[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return found


def _has_attribute(body: cst.IndentedBlock) -> bool:
    lines = (each for each in body.body if isinstance(each, cst.SimpleStatementLine))
    assigned = (each for line in lines for each in line.body if isinstance(each, (cst.Assign, cst.AnnAssign)))
    return any(
        target.value == ATTRIBUTE
        for each in assigned
        for target in ([each.target] if isinstance(each, cst.AnnAssign) else [t.target for t in each.targets])
        if isinstance(target, cst.Name)
    )
