"""Self-tests of harness.runner."""
