"""``main``, the command ``torch-harness migrate``: rewrites files and says what was left."""

from __future__ import annotations

import argparse
import difflib
import enum
import importlib.util
import io
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.migrate import files
from harness.system import standard_output

if TYPE_CHECKING:
    from harness.migrate.rewrite import Rewritten

EPILOG = """\
exit codes:
  0    everything that comes from torch's test modules comes from harness now
  1    something was left, and is listed with its line and the reason; all else was done
  2    wrong command line, or a file could not be read, parsed or written; the others were done
  141  nobody reads what is printed (| head); a dry run changes nothing in any case
"""


class ExitCode(enum.IntEnum):
    """The exit codes of the command."""

    DONE = 0
    LEFT = 1
    FAILED = 2


def main(words: Sequence[str], prog: str) -> int:
    """Migrates the paths that ``words`` name; returns the exit code. ``prog`` is the command before them.

    BrokenPipeError where nobody reads what it prints.
    """
    options = _parser(prog).parse_args(words)
    try:
        if importlib.util.find_spec("libcst") is None:
            raise UsageError("libcst is not installed: pip install 'torch-harness[migrate]'")
        return _migrate(list(files.python_files(options.paths)), dry_run=options.dry_run)
    except UsageError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return ExitCode.FAILED


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Rewrite imports of torch's private test modules (torch.testing._internal) to imports "
        "from harness, and list what has no counterpart there.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a Python file, or a directory of them")
    parser.add_argument("--dry-run", action="store_true", help="print the changes as a diff; change no file")
    return parser


def _migrate(paths: Sequence[Path], *, dry_run: bool) -> ExitCode:
    changed = moved = left = failed = 0
    for path in paths:
        try:
            before = path.read_bytes()
            after = _rewritten(before)
            if after.moved and not dry_run:
                files.replace_file(path, after.content)
        except (OSError, ValueError) as error:
            print(f"{path}: error: {_one_line(error)}", file=sys.stderr)
            failed += 1
            continue
        if after.moved and dry_run:
            standard_output.write_out(_diff(path, before, after.content))
        for each in after.left:
            print(f"{path}:{each.line}: left {each.what}: {each.reason}", file=sys.stderr)
        for case in after.added:
            why = f"line {case.asked} asks in which process it is, so each rank imports this module"
            print(f"{path}:{case.line}: added import_in_ranks = True to {case.name}: {why}", file=sys.stderr)
        changed, moved, left = changed + bool(after.moved), moved + after.moved, left + len(after.left)
    would = "would change" if dry_run else "changed"
    print(
        f"{would} {changed} of {len(paths)} files: {moved} names come from harness, {left} were left"
        + (f", {failed} files failed" if failed else ""),
        file=sys.stderr,
    )
    return ExitCode.FAILED if failed else ExitCode.LEFT if left else ExitCode.DONE


def _rewritten(source: bytes) -> Rewritten:
    """The migrated file; ValueError where it cannot be parsed."""
    from harness.migrate.rewrite import Rewritten, rewrite  # imported late: it needs libcst

    if b"torch.testing" not in source:  # parsing takes a hundred times as long
        return Rewritten(source, 0, ())
    import libcst

    try:
        return rewrite(source)
    except libcst.ParserSyntaxError as error:
        raise ValueError(f"line {error.raw_line} is no Python of this version: {error.message}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _diff(path: Path, before: bytes, after: bytes) -> str:
    old, new = (_text(content).splitlines(keepends=True) for content in (before, after))
    return "".join(difflib.unified_diff(old, new, f"{path}", f"{path} (migrated)"))


def _text(source: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding)
