"""Self-tests of the package ``harness.system``."""
