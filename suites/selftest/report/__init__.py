"""Self-tests of the package ``harness.report``."""
