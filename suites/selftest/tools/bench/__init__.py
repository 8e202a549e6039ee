"""Tests of the benchmark: its arithmetic, its order, the shape of what it prints; never its times."""
