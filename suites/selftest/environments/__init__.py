"""Runs of small test modules in odd environments: each row of ``docs/environments.rst`` is a test here."""
