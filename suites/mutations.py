"""What reviewers found out about the mutants that ``tools/mutate.py`` makes of torch's source."""

from __future__ import annotations

# Mutants that nothing can notice, as the tool names them, each with the reason.
EQUIVALENT: dict[str, str] = {}
