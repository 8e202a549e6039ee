"""Self-tests of harness.supervise."""
