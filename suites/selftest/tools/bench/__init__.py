"""Tests of ``tools.bench``: its arithmetic, its order and the form of its output, but never its times."""
