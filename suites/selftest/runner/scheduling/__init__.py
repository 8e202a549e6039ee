"""Self-tests of ``harness/runner/scheduling``."""
