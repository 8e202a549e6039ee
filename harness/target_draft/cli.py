"""``main``, the command ``torch-harness target``: drafts a target by trying out what a backend can do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from harness.errors import HarnessError, UsageError
from harness.target_draft import tries
from harness.target_draft.module_text import is_module_name, module_text
from harness.target_draft.rounds import Plug, tried

EPILOG = """\
exit codes:
  0    the draft is written
  2    wrong command line, or no group of two ranks can be made
  3    the harness itself failed
  130  interrupted by Ctrl-C; nothing is written
"""
OK, USAGE, BROKEN, INTERRUPTED = 0, 2, 3, 130
# Seconds: what a try takes on a slow machine, and DDP's and the profiler's first imports with it.
LIMIT_S = 30.0


def main(words: Sequence[str], prog: str) -> int:
    """Does what ``words`` say and returns the exit code; ``prog`` is the command before them."""
    options = _parser(prog).parse_args(words)
    try:
        return _new(options)
    except UsageError as error:
        return _fail(prog, f"error: {error}", USAGE)
    except HarnessError as error:
        return _fail(prog, f"the harness failed: {error}", BROKEN)
    except KeyboardInterrupt:
        return _fail(prog, "interrupted; nothing is written", INTERRUPTED)


def _new(options: argparse.Namespace) -> int:
    path = Path(options.output or f"{options.name}_target.py")
    if path.exists():
        raise UsageError(f"{path} exists: give another by --output, or remove it")
    if options.module and not is_module_name(options.module):
        raise UsageError(f"--import {options.module}: write it as in an import statement")
    plug = Plug(options.name.lower(), options.device, options.module)
    found = tried(tries.operations(), plug, limit_s=options.limit, say=_say)
    working = [each for each, finding in found.items() if finding.right]
    found |= tried(tries.further(working), plug, limit_s=options.limit, good=working, say=_say)
    path.write_text(module_text(found, plug, version("torch")), encoding="utf-8")
    right = sum(finding.right for finding in found.values())
    print(f"{path}: {right} of {len(found)} tries work, its comments say what does not; --plugin takes it")
    return OK


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Targets: what a backend or device declares that it can do.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser(
        "new",
        help="write the first draft of a target",
        description="Try out on two ranks what a backend can do (operations, dtypes, reductions, "
        "capabilities), and write a module with its TARGET. After a try that crashes or hangs the next "
        "ones go on in new ranks.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = new.add_argument
    add("name", metavar="NAME", help="the backend, as init_process_group takes it")
    add("--device", metavar="TYPE", default="cpu", help="the device, as torch.device takes it (default: cpu)")
    add("--import", dest="module", metavar="MODULE", default="", help="the module that registers them")
    add("--output", metavar="FILE", help="where to write it (default: NAME_target.py)")
    add(
        "--limit",
        metavar="SECONDS",
        type=float,
        default=LIMIT_S,
        help=f"what one try may take before it counts as hung (default: {LIMIT_S:g})",
    )
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _fail(prog: str, text: str, code: int) -> int:
    _say(f"{prog}: {text}")
    return code
