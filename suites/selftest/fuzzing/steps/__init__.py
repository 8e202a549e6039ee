"""Self-tests of ``harness.fuzzing.steps``."""
