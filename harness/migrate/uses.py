"""Finds where a file uses torch's private test modules as modules: ``cd.TestSkip``, a bare ``cd``.

Names are resolved by libcst's scopes, so that a variable that only has the name of an import is left alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import libcst as cst
from libcst import metadata

from harness.migrate import names

PACKAGE = "harness"


@dataclass(slots=True)
class ModuleUses:
    """How a file uses a module of torch's: attributes that move, and whether its import must stay."""

    moved: int = 0
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was not migrated: its line, what it is in the words of the file, and the reason."""

    line: int
    what: str
    reason: str


@dataclass(slots=True)
class Uses:
    """What ``find_uses`` finds: by module, the attributes to rewrite, and what is left."""

    by_module: dict[str, ModuleUses] = field(default_factory=dict)
    moved: dict[cst.Attribute, str] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (metadata.ScopeProvider, metadata.PositionProvider)

    def __init__(self, uses: Uses, imported: frozenset[str], bound: Collection[str], can_move: bool) -> None:
        super().__init__()
        self.uses, self._imported, self._bound, self._can_move = uses, imported, bound, can_move
        self._stores: set[cst.CSTNode] = set()

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._stores.add(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._stores.add(node.target)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        name = self._imported_name(node)
        module = name.rpartition(".")[0]
        if module in self._imported and name.endswith(f".{node.attr.value}"):
            self._use(node, module, node.attr.value)
        elif name in self._imported:
            self._stay(node, name, name, "is used as a module")
        else:
            return True
        return False

    def visit_Name(self, node: cst.Name) -> None:
        name = self._imported_name(node)
        if name in self._imported:
            self._stay(node, name, node.value, "is used as a module")

    def _use(self, node: cst.Attribute, module: str, attribute: str) -> None:
        row = names.find(module, attribute)
        what = f"{row.module}.{attribute}"
        if node in self._stores:
            self._stay(node, module, what, "is assigned to")
        elif row.counterpart is None:
            self._stay(node, module, what, row.reason)
        elif not self._can_move:
            self._stay(node, module, what, f"cannot be written {PACKAGE}.{attribute}: the file has that name")
        else:
            self.uses.moved[node] = row.counterpart
            self._of(module).moved += 1

    def _imported_name(self, node: cst.Name | cst.Attribute) -> str:
        """The full name of what a name or attribute stands for; "" where that is not sure or no import's.

        Few names begin with that of an import, and the look-up in scopes takes longer than all else.
        """
        first: cst.CSTNode = node
        while isinstance(first, cst.Attribute):
            first = first.value
        if not isinstance(first, cst.Name) or first.value not in self._bound:
            return ""
        scope = self.get_metadata(metadata.ScopeProvider, node, None)
        found = {each.name for each in scope.get_qualified_names_for(node)} if scope is not None else set()
        return found.pop() if len(found) == 1 else ""

    def _of(self, module: str) -> ModuleUses:
        return self.uses.by_module.setdefault(module, ModuleUses())

    def _stay(self, node: cst.CSTNode, module: str, what: str, reason: str) -> None:
        self._of(module).stays = True
        line = self.get_metadata(metadata.PositionProvider, node).start.line
        self.uses.left.append(Left(line, what, reason))


class _TextsAndImports(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (metadata.PositionProvider,)

    def __init__(self, uses: Uses) -> None:
        super().__init__()
        self.uses = uses
        self.bound: set[str] = set()  # the names that imports bind, in any scope

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
        self.bound.add(node.evaluated_alias or node.evaluated_name.partition(".")[0])

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        if f"{names.HOME}." in node.value:
            line = self.get_metadata(metadata.PositionProvider, node).start.line
            why = "is a text, of which the migration cannot know the meaning"
            self.uses.left.append(Left(line, node.value.strip().split("\n")[0], why))


def find_uses(wrapper: metadata.MetadataWrapper, imported: frozenset[str]) -> Uses:
    """Where a file uses those of torch's modules (full names) that it imports as modules."""
    uses = Uses()
    texts = _TextsAndImports(uses)
    wrapper.visit(texts)
    if not imported:  # finding the scopes takes as long as all else
        return uses
    wrapper.visit(_Finder(uses, imported, texts.bound, can_move=not _is_taken(wrapper)))
    return uses


def _is_taken(wrapper: metadata.MetadataWrapper) -> bool:
    """Whether the file has a variable of its own that is called as the package is."""
    scopes = {scope for scope in wrapper.resolve(metadata.ScopeProvider).values() if scope is not None}
    assigned = [each for scope in scopes for each in scope.assignments if each.name == PACKAGE]
    return any(not _imports_package(each) for each in assigned)


def _imports_package(assignment: metadata.BaseAssignment) -> bool:
    return isinstance(assignment, metadata.ImportAssignment) and isinstance(assignment.node, cst.Import)
