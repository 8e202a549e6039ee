"""Tests the first drafts of targets, ``harness/target_draft``."""
