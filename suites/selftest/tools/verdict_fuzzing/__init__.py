"""Tests of ``tools/verdict_fuzzing``."""
