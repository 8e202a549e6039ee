"""Self-tests of the helper modules of ``suites/spmd``."""
