"""Self-tests of harness.report."""
