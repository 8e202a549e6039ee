"""Tests of ``torch-harness run``, with scripts that know nothing of the harness (``scripts.py``)."""
