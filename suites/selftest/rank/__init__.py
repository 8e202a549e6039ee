"""Self-tests of harness.rank."""
