"""Self-tests of the package ``harness.requirements``."""
