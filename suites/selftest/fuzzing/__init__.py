"""Self-tests of the package ``harness.fuzzing``."""
