"""Tests of ``tools/communication_fuzzing``."""
