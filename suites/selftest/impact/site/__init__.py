"""Tests of ``harness/impact/site``."""
