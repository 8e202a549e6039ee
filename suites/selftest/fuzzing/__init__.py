"""Tests of harness.fuzzing."""
