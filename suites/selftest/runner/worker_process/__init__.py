"""Self-tests of ``harness/runner/worker_process``."""
