"""Self-tests of ``harness/runner/command_line``."""
