"""Benchmarks of the harness: its ranks and its runner, beside upstream's harness and a bare program."""
