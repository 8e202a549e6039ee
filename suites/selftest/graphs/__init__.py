"""Self-tests of the package ``harness.graphs``."""
