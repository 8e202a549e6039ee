"""Mutants that nothing can notice: found by their byte code, or known to a reviewer who gave the reason."""

from __future__ import annotations

from collections.abc import Mapping

from suites.mutations import EQUIVALENT
from tools.mutation.sites import Description, Site, describe, same_code


def reason(site: Site, source: str, known: Mapping[str, str] = EQUIVALENT) -> str | None:
    """Why nothing can notice the mutant, or None."""
    if same_code(source, site.name):
        return "the same byte code"
    return known.get(key(site, describe(source, site.name)))


def key(site: Site, description: Description) -> str:
    """How a reviewer names a mutant: by what it changes where, since lines move from release to release."""
    return f"{site.file} {site.function}: {description.before} => {description.after}"
