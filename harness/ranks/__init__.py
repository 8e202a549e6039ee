"""Starts, watches and ends the ranks of a test: one folder per rank mode, and beside them what modes
share."""
