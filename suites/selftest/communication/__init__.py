"""Self-tests of the package ``harness.communication``."""
