"""Tests of ``harness.fuzzing``."""
