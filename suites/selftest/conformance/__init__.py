"""Self-tests of the package ``harness.conformance``."""
