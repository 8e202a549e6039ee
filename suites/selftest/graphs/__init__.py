"""Self-tests of the capture helpers."""
