"""Rewrites the imports in the text of one file; decides what moves to ``harness`` and what stays with torch.

Only import statements, and attributes of modules that they import, are changed: the rest keeps every
character, comments too.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
from libcst import metadata
from libcst.helpers import get_full_name_for_node

from harness.migrate import in_ranks, names
from harness.migrate.formatting import (
    BESIDE_RUN_TESTS,
    PARDON,
    PRAGMA,
    aliases,
    comment,
    has_comment,
    only,
    pardoned,
    semicolons,
    without_last_comma,
)
from harness.migrate.uses import PACKAGE, Left, Uses, find_uses

_ALL = "imports everything: name what you use"
_NO_TABLE = "is of a module that has no counterpart in harness"
_UNUSED = "is imported and not used"


_IMPORT_PACKAGE = cst.Import([cst.ImportAlias(cst.Name(PACKAGE))])


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file after its migration: its bytes, how many names moved, and what was left, line by line.

    ``added`` are the classes that have their module imported in each rank.
    """

    content: bytes
    moved: int
    left: tuple[Left, ...]
    added: tuple[in_ranks.Added, ...] = ()


def rewrite(source: bytes) -> Rewritten:
    """The migrated file; ``libcst.ParserSyntaxError`` where it is no Python.

    A second call on the result changes nothing. ``UnicodeError`` where the bytes are not in their encoding.
    """
    module = cst.parse_module(source)
    wrapper = metadata.MetadataWrapper(module, unsafe_skip_copy=True)
    imports = _Imports()
    wrapper.visit(imports)
    uses = find_uses(wrapper, frozenset(imports.modules))
    rewriter = _Rewriter(wrapper.module, imports, uses)
    after = wrapper.visit(rewriter)
    left = tuple(sorted(rewriter.left, key=lambda each: each.line))
    moved = rewriter.moved + len(uses.moved)
    if not moved:
        return Rewritten(source, 0, left)
    after, added = in_ranks.add_attribute(after)
    return Rewritten(after.bytes, moved, left, added)


class _Imports(cst.CSTVisitor):
    """What a file imports, and which names it has at its top."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: set[str] = set()  # of torch's test modules, those that are imported as modules
        self.by_device_type = False
        self.binds_torch = False
        self.binds_load_tests = False
        self.binds_package = False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        home = _module_of(node)
        self._note(home)
        for alias in aliases(node):
            full = f"{home}.{alias.evaluated_name}"
            if names.is_known_module(full):
                self.modules.add(full)
            self._note(full)
            self.binds_load_tests |= (alias.evaluated_alias or alias.evaluated_name) == BESIDE_RUN_TESTS

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            name = alias.evaluated_name
            self._note(name)
            self.binds_package |= name == PACKAGE and alias.asname is None
            if names.is_known_module(name):
                self.modules.add(name)
            elif name.partition(".")[0] == "torch" and alias.asname is None:
                self.binds_torch = True

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.binds_load_tests |= node.name.value == BESIDE_RUN_TESTS

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self.binds_load_tests |= isinstance(node.target, cst.Name) and node.target.value == BESIDE_RUN_TESTS

    def _note(self, module: str) -> None:
        self.by_device_type |= module.removeprefix(f"{names.HOME}.") in names.DEVICE_TYPE_TESTS


class _Rewriter(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (metadata.PositionProvider,)

    def __init__(self, module: cst.Module, imports: _Imports, uses: Uses) -> None:
        super().__init__()
        self._at_top, self._imports, self._uses = set(module.body), imports, uses
        self.left = list(uses.left)
        self.moved = 0

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        name = self._uses.moved.get(original_node)
        if name is None:
            return updated_node
        whole = cst.Attribute(cst.Name(PACKAGE), cst.Name(name))
        return whole.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        parts = self._parts(original_node, updated_node, self._is_at_top(original_node))
        if not parts and not has_comment(updated_node):
            return cst.RemoveFromParent()
        if not parts:
            parts = [_IMPORT_PACKAGE]
        if len(original_node.body) > 1 or len(parts) == 1:
            changed = updated_node.with_changes(body=semicolons(parts))
            return pardoned(changed) if parts[0] is not updated_node.body[0] else changed
        trailing = updated_node.trailing_whitespace
        kept = trailing if PRAGMA.search(comment(trailing)) else cst.TrailingWhitespace()
        first = updated_node.with_changes(body=[parts[0]])
        second = updated_node.with_changes(body=[parts[1]], leading_lines=(), trailing_whitespace=kept)
        return cst.FlattenSentinel([first, pardoned(second)])

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        parts = self._parts(original_node, updated_node, at_top=False)
        return updated_node.with_changes(body=semicolons(parts))

    def _parts(
        self,
        original_node: cst.SimpleStatementLine | cst.SimpleStatementSuite,
        updated_node: cst.SimpleStatementLine | cst.SimpleStatementSuite,
        at_top: bool,
    ) -> list[cst.BaseSmallStatement]:
        """The statements in place of those of a line; none where the line is not needed any more."""
        parts: list[cst.BaseSmallStatement] = []
        for before, after in zip(original_node.body, updated_node.body, strict=True):
            if isinstance(before, cst.ImportFrom) and isinstance(after, cst.ImportFrom):
                parts += self._from_import(before, after, at_top)
            elif isinstance(before, cst.Import) and isinstance(after, cst.Import):
                parts += self._import(before, after, at_top)
            else:
                parts.append(after)
        return parts

    def _is_at_top(self, node: cst.CSTNode) -> bool:
        return node in self._at_top

    # -- from torch... import ...

    def _from_import(
        self, before: cst.ImportFrom, after: cst.ImportFrom, at_top: bool
    ) -> list[cst.BaseSmallStatement]:
        home = _module_of(before)
        if not f"{home}.".startswith(f"{names.HOME}."):
            return [after]
        named = aliases(after)
        if not named:
            self._leave(before, f"{_short(home)}.*", _ALL)
            return [after]
        # Metadata is known of the nodes before.
        if names.is_known_module(home):
            stay = [
                each
                for known, each in zip(aliases(before), named, strict=True)
                if not self._moves(home, known)
            ]
        else:
            return self._from_package(home, before, after, at_top)
        go = [each for each in named if each not in stay]
        self.moved += len(go)
        if not go:
            return [after]
        ours = only(after, self._with_load_tests(go) if at_top else go)
        ours = ours.with_changes(module=cst.Name(PACKAGE))
        return [only(after, stay), ours] if stay else [ours]

    def _moves(self, home: str, alias: cst.ImportAlias) -> bool:
        row = names.find(home, alias.evaluated_name)
        together = row.name in names.TOGETHER and self._imports.by_device_type
        if row.counterpart is not None and not together:
            return True
        self._leave(alias, f"{_short(home)}.{row.name}", names.WHY_TOGETHER if together else row.reason)
        return False

    def _with_load_tests(self, moved: list[cst.ImportAlias]) -> list[cst.ImportAlias]:
        calls = any(each.evaluated_name == "run_tests" for each in moved)
        if not calls or self._imports.binds_load_tests:
            return moved
        self._imports.binds_load_tests = True
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        known = moved[0].comma
        if isinstance(known, cst.Comma) and isinstance(known.whitespace_after, cst.ParenthesizedWhitespace):
            pardon = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), cst.Comment(PARDON))
            lines = known.whitespace_after.with_changes(
                first_line=pardon, indent=True, last_line=cst.SimpleWhitespace("    ")
            )
            comma = known.with_changes(whitespace_after=lines)
        return [cst.ImportAlias(cst.Name(BESIDE_RUN_TESTS), comma=comma), *moved]

    def _from_package(
        self, home: str, before: cst.ImportFrom, after: cst.ImportFrom, at_top: bool
    ) -> list[cst.BaseSmallStatement]:
        """``from torch.testing._internal import common_utils``, and imports of modules without a table."""
        both = list(zip(aliases(before), aliases(after), strict=True))
        stay = [
            each
            for known, each in both
            if not self._replaceable(f"{home}.{each.evaluated_name}", known, True)
        ]
        used = any(self._is_used(f"{home}.{each.evaluated_name}") for each, _ in both)
        kept = after if len(stay) == len(both) else only(after, stay) if stay else None
        return self._replaced(kept, used, at_top)

    # -- import torch...

    def _import(self, before: cst.Import, after: cst.Import, at_top: bool) -> list[cst.BaseSmallStatement]:
        stay = [
            each
            for known, each in zip(before.names, after.names, strict=True)
            # Without "as" the statement is also what makes the name "torch".
            if not self._replaceable(
                each.evaluated_name, known, bool(each.asname) or self._imports.binds_torch
            )
        ]
        used = any(self._is_used(each.evaluated_name) for each in before.names)
        kept = after if len(stay) == len(after.names) else None
        if kept is None and stay:
            kept = after.with_changes(names=without_last_comma(stay))
        return self._replaced(kept, used, at_top)

    def _is_used(self, module: str) -> bool:
        uses = self._uses.by_module.get(module)
        return uses is not None and uses.moved > 0

    def _replaceable(self, module: str, alias: cst.ImportAlias, binds_no_other: bool) -> bool:
        """Whether ``import harness`` can stand in place of the import of a module; notes why where not."""
        if not module.startswith(f"{names.HOME}."):
            return False
        uses = self._uses.by_module.get(module)
        if not names.is_known_module(module):
            self._leave(alias, _short(module), _NO_TABLE)
        elif uses is None:
            self._leave(alias, _short(module), _UNUSED)
        return uses is not None and not uses.stays and binds_no_other

    def _replaced(
        self, kept: cst.BaseSmallStatement | None, used: bool, at_top: bool
    ) -> list[cst.BaseSmallStatement]:
        parts = [kept] if kept is not None else []
        if not used or self._imports.binds_package:
            return parts
        self._imports.binds_package |= at_top
        return [*parts, _IMPORT_PACKAGE]

    def _leave(self, statement: cst.CSTNode, what: str, reason: str) -> None:
        line = self.get_metadata(metadata.PositionProvider, statement).start.line
        self.left.append(Left(line, what, reason))


def _module_of(node: cst.ImportFrom) -> str:
    """The full name of the module that is imported from; "" for a relative import."""
    return "" if node.relative or node.module is None else get_full_name_for_node(node.module) or ""


def _short(module: str) -> str:
    """A module's name without that of the package of torch's test modules."""
    return module.removeprefix(names.HOME).removeprefix(".")
