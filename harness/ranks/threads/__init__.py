"""Ranks that are threads of the process that runs the test."""
