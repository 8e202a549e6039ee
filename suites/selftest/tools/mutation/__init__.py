"""Tests of ``tools/mutation``."""
