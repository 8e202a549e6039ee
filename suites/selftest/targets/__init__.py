"""Self-tests of ``harness/targets``."""
