"""Tests of ``harness/impact``: what tests execute, and which of them a change can affect."""
