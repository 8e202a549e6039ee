"""Self-tests of the package ``harness.graphs.train_step``."""
