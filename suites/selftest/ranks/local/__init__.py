"""Self-tests of harness.ranks.local."""
