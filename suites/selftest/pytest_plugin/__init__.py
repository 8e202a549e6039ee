"""Tests of the pytest plugin: real runs of pytest over test files that a test writes (``runs.py``)."""
