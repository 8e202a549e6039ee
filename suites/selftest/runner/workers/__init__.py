"""Self-tests of ``harness/runner/workers``."""
