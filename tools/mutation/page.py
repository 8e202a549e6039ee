"""``survivors.html``: each mutant that no test noticed, in its source, with the tests that execute it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.mutation import score
from tools.mutation.operators import OPERATORS
from tools.mutation.results import Result, Verdict
from tools.mutation.sites import describe, find

NAME = "survivors.html"
_TEMPLATES = Path(__file__).parent / "templates"
# Lines of source that are shown before and after a mutant's first.
CONTEXT = 3
MISSED = (Verdict.SURVIVED, Verdict.NOT_EXECUTED)


def html_text(results: Sequence[Result], sources: Mapping[str, str], setting: str) -> str:
    """The text of the page. ``sources`` has the text of each mutated file, ``setting`` says what was run."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    missed = sorted((r for r in results if r.verdict in MISSED), key=lambda r: (r.verdict.value, r.mutant))
    return environment.get_template(NAME).render(
        score=str(score.total(results)),
        setting=setting,
        table=score.table(results),
        survivors=[_survivor(result, sources[result.file]) for result in reversed(missed)],
    )


def _survivor(result: Result, source: str) -> dict[str, Any]:
    site = find(result.mutant, source)
    description = describe(source, result.mutant)
    first, last = site.span[0], site.span[0] + CONTEXT
    lines = source.splitlines()
    return {
        "name": result.mutant,
        "function": site.function,
        "rule": (OPERATORS[site.operator].__doc__ or site.operator).splitlines()[0],
        "before": description.before,
        "after": description.after,
        "context": [
            {"text": f"{number:5}  {lines[number - 1]}", "changed": number == first}
            for number in range(max(1, first - CONTEXT), min(len(lines), last) + 1)
        ],
        "tests": result.tests,
        "left_out": result.left_out,
        "command": f"python tools/mutate.py --mutant {result.mutant}",
    }
