"""Tests of ``harness/configuration``."""
