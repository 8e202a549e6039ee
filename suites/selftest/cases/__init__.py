"""Self-tests of harness.cases: the fault table, each row run for real on both launchers."""
