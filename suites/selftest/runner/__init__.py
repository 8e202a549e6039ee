"""Self-tests of the package ``harness.runner``."""
