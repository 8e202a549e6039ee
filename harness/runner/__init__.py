"""The side of ``run_tests.py``: what runs, where, when and for how long. Never imports torch."""
