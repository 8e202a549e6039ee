"""Self-tests of ``harness/runner/selection``."""
