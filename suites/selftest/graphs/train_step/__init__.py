"""Tests of ``harness.graphs.train_step``."""
