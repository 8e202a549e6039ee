"""Self-tests of harness.ranks.external."""
