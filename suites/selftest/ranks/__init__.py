"""Self-tests of harness.ranks."""
