"""Self-tests of ``harness/agent``."""
