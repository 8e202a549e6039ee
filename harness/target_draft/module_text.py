"""``module_text``: what was found, as the text of a plugin with a ``TARGET``. Pure."""

from __future__ import annotations

import keyword
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping

from harness.target_draft.rounds import Plug
from harness.target_draft.tries import Finding, Try
from harness.targets.target import COMPLEX, DEFINED_FOR, FLOATS, INTEGERS, Capability, Operation

# Sets of dtypes that a plugin can import by their names.
_SETS = {"FLOATS": FLOATS, "INTEGERS": INTEGERS, "COMPLEX": COMPLEX}
_WIDTH = 110


def declared(found: Mapping[Try, Finding]) -> dict[str, Operation]:
    """The operations that work, with their dtypes and reductions."""
    dtypes: dict[str, set[str]] = defaultdict(set)
    reductions: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for each, finding in found.items():
        if each.operation and finding.right:
            dtypes[each.operation].add(each.dtype)
            if each.reduction:
                reductions[each.operation][each.reduction].add(each.dtype)
    if "send" in dtypes:
        dtypes["recv"] = dtypes["send"]
    return {
        name: Operation(
            frozenset(dtypes[name]),
            {reduction: frozenset(of) for reduction, of in reductions[name].items()},
        )
        for name in dtypes
    }


def capabilities(found: Mapping[Try, Finding]) -> frozenset[Capability]:
    """The capabilities that work."""
    return frozenset(Capability[each.capability] for each, f in found.items() if each.capability and f.right)


def module_text(found: Mapping[Try, Finding], plug: Plug, torch: str) -> str:
    """The plugin with what was found; ``torch`` is the release that was used."""
    body = _body(found, plug)
    names = sorted(name for name in ("COMPLEX", "FLOATS", "INTEGERS") if name in body)
    imported = ", ".join([*names, "Capability", "Target", "operations"])
    lines = [
        f'"""The target {plug.backend} on {plug.device_type}: a draft, made by trying it out on two ranks.',
        "",
        f"Made with torch {torch}. What works once on two ranks is no promise: take out what is not meant to",
        "work, and run the suites, which find what works in part.",
        '"""',
        "",
        f"from harness.targets import {imported}",
    ]
    if plug.module:
        lines += ["", f"import {plug.module}  # registers the backend"]
    return "\n".join([*lines, "", body, *_comments(found), ""])


def _body(found: Mapping[Try, Finding], plug: Plug) -> str:
    lines = ["TARGET = Target(", f'    "{plug.backend}",', f'    "{plug.device_type}",', "    {"]
    same: dict[tuple[object, ...], list[str]] = defaultdict(list)
    of = declared(found)
    for name, operation in of.items():
        key = (operation.dtypes, tuple(sorted((r, d) for r, d in operation.reductions.items())))
        same[key].append(name)
    for names in same.values():
        lines += _operations(names, of[names[0]])
    lines += ["    },", "    frozenset("]
    words = sorted(f"Capability.{each.name}" for each in capabilities(found))
    lines += ["        {", *(f"            {word}," for word in words), "        }"] if words else []
    return "\n".join([*lines, "    ),", ")"])


def _operations(names: Iterable[str], operation: Operation) -> list[str]:
    """The lines of a call of ``operations``."""
    lines = ["        **operations("]
    lines += _wrapped("(", [f'"{name}"' for name in names], ")", 12)
    text = dtypes_text(operation.dtypes)
    lines += [f"            {text},"] if len(text) < _WIDTH - 13 else _on_lines(text)
    usual = all(
        dtypes == operation.dtypes & DEFINED_FOR[name] for name, dtypes in operation.reductions.items()
    )
    if operation.reductions and usual:
        lines += _wrapped("(", [f'"{name}"' for name in operation.reductions], ")", 12)
    elif operation.reductions:
        lines.append("            {")
        lines += [
            f'                "{name}": {dtypes_text(dtypes)},'
            for name, dtypes in operation.reductions.items()
        ]
        lines.append("            },")
    return [*lines, "        ),"]


def _on_lines(text: str) -> list[str]:
    """An expression as an argument, a line for each of its terms."""
    first, *others = text.split(" | ")
    return [
        f"            {first}",
        *(f"            | {each}" for each in others[:-1]),
        f"            | {others[-1]},",
    ]


def _wrapped(opening: str, words: list[str], closing: str, indent: int) -> list[str]:
    """A tuple as one line, or with a line for each of its words."""
    line = f"{' ' * indent}{opening}{', '.join(words)}{',' * (len(words) == 1)}{closing},"
    if len(line) <= _WIDTH:
        return [line]
    inner = [f"{' ' * (indent + 4)}{word}," for word in words]
    return [f"{' ' * indent}{opening}", *inner, f"{' ' * indent}{closing},"]


def dtypes_text(dtypes: frozenset[str]) -> str:
    """An expression for a set of dtypes: ``FLOATS | {"bool"}``."""
    whole = [name for name, members in _SETS.items() if members <= dtypes]
    rest = sorted(dtypes.difference(*(_SETS[name] for name in whole)))
    literal = [f"{{{', '.join(chr(34) + each + chr(34) for each in rest)}}}"] if rest else []
    return " | ".join([*whole, *literal]) or "frozenset()"


def _comments(found: Mapping[Try, Finding]) -> list[str]:
    """What does not work, by what was said of it; dtypes, and then operations, in one line."""
    dtypes: dict[tuple[str, str, Finding], list[str]] = defaultdict(list)
    for each, finding in found.items():
        if not finding.right:
            dtypes[each.capability or each.operation, each.reduction, finding].append(each.dtype)
    names: dict[tuple[str, str, Finding], list[str]] = defaultdict(list)
    for (name, reduction, finding), of in dtypes.items():
        names[reduction, ", ".join(of), finding].append(name)
    lines = []
    for (reduction, said_of, finding), of in names.items():
        words = [", ".join(of), reduction.upper(), f"of {said_of}" if said_of else ""]
        line = f"# {' '.join(word for word in words if word)}: {finding.end}"
        line += f": {finding.said}" if finding.said else ""
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent="#   ", break_long_words=False)
    return ["", "# What was tried and does not work:", *lines] if lines else []


def is_module_name(name: str) -> bool:
    """Whether ``import name`` can import it."""
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))
