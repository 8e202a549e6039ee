"""Self-tests of harness.launch."""
