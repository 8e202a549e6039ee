"""Self-tests of harness.ranks.threads."""
