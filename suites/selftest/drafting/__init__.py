"""Tests the first drafts of targets, ``harness/drafting``."""
