"""Keeps the form of import statements that change: commas, parentheses, comments, lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

# What unittest and run_tests need in a module that calls run_tests: the tests of a shard alone.
BESIDE_RUN_TESTS = "load_tests"
PARDON = "# noqa: F401  (unittest calls load_tests)"
# Comments to a tool, which hold for both statements where one becomes two.
PRAGMA = re.compile(r"noqa|type:|pylint|pyright|isort|fmt:")


def aliases(node: cst.ImportFrom) -> list[cst.ImportAlias]:
    """What an import names; nothing where it imports everything."""
    return [] if isinstance(node.names, cst.ImportStar) else list(node.names)


def only(node: cst.ImportFrom, named: Sequence[cst.ImportAlias]) -> cst.ImportFrom:
    """The import with these of its names; a list in parentheses ends as it did."""
    end = aliases(node)[-1].comma
    last, rpar = named[-1], node.rpar
    own = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else None
    if last is aliases(node)[-1]:
        pass
    elif isinstance(own, cst.ParenthesizedWhitespace) and rpar is not None:
        # The name keeps its comma and comment; the parenthesis stands on the line after it.
        before_end = end.whitespace_after if isinstance(end, cst.Comma) else rpar.whitespace_before
        margin = cst.SimpleWhitespace("")
        own = own.with_changes(last_line=margin)
        if isinstance(before_end, cst.ParenthesizedWhitespace):
            own = own.with_changes(indent=before_end.indent, last_line=before_end.last_line)
        last = last.with_changes(comma=cst.Comma(whitespace_after=own))
        rpar = rpar.with_changes(whitespace_before=cst.SimpleWhitespace(""))
    else:
        last = last.with_changes(comma=end if node.lpar is not None else cst.MaybeSentinel.DEFAULT)
    return node.with_changes(names=[*named[:-1], last], rpar=rpar)


def comment(trailing: cst.TrailingWhitespace) -> str:
    """The comment at the end of a line; an empty text where there is none."""
    return trailing.comment.value if trailing.comment is not None else ""


def has_comment(line: cst.SimpleStatementLine) -> bool:
    """Whether a line, or one before it that belongs to it, has a comment."""
    return bool(comment(line.trailing_whitespace)) or any(each.comment for each in line.leading_lines)


def pardoned(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
    """The line, with a comment for linters where it imports load_tests in one line and has no comment."""
    (*_, last) = line.body
    if not isinstance(last, cst.ImportFrom) or comment(line.trailing_whitespace):
        return line
    one_line = all(
        not (
            isinstance(each.comma, cst.Comma) and not each.comma.whitespace_after.empty and "#" in code(each)
        )
        for each in aliases(last)
    )
    if aliases(last)[0].evaluated_name != BESIDE_RUN_TESTS or not one_line:
        return line
    pardon = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), cst.Comment(PARDON))
    return line.with_changes(trailing_whitespace=pardon)


def code(node: cst.CSTNode) -> str:
    """The text of a node."""
    return cst.Module([]).code_for_node(node)


def without_last_comma(named: Sequence[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """The names of an import without parentheses, none of which ends it with a comma."""
    return [*named[:-1], named[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]


def semicolons(parts: Sequence[cst.BaseSmallStatement]) -> list[cst.BaseSmallStatement]:
    """Statements of one line, each but the last with a semicolon."""
    between = cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))
    first = [
        each if isinstance(each.semicolon, cst.Semicolon) else each.with_changes(semicolon=between)
        for each in parts[:-1]
    ]
    return [*first, parts[-1]]
