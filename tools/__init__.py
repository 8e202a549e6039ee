"""Command-line tools for people who work on the harness."""
