"""Where the conformance suites are: in the checkout, or in the copy that an installed wheel has."""

from __future__ import annotations

from pathlib import Path

_HARNESS = Path(__file__).resolve().parents[2]
# setup.py puts them here in a wheel: below the package, so that no other ``suites`` on sys.path meets them.
_BUNDLED = "bundled"


def suites_root(package: Path = _HARNESS) -> Path:
    """The directory that holds ``suites/``, its place on ``sys.path``; ``package`` is ``harness/``."""
    bundled = package / _BUNDLED
    return bundled if bundled.is_dir() else package.parent
