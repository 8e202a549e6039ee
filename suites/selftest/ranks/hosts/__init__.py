"""Self-tests of ``harness/ranks/hosts``."""
