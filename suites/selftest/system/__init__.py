"""Self-tests of harness.system."""
