"""Starts, watches and ends the ranks of a test: one folder per rank mode, beside it what modes share."""
