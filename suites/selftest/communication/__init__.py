"""Self-tests of harness.communication."""
