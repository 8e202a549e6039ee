"""Faulty test cases, and the tools that run them and check that they leave nothing behind.

No file here is named ``test_*.py``: the self-tests of the other packages run these cases and judge the
verdicts.
"""
