"""Self-tests of ``harness.graphs``."""
