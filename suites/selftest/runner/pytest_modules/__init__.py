"""Self-tests of ``harness/runner/pytest_modules``."""
