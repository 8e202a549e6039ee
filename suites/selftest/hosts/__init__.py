"""Self-tests of ``harness/hosts``."""
