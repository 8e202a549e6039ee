"""Self-tests of harness.ranks.processes."""
