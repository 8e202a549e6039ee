"""Self-tests of harness.requirements."""
