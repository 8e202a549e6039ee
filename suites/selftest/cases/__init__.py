"""Self-tests of harness.cases: among others, faulty cases that run for real on both launchers."""
