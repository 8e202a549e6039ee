"""Targets that the project has itself, as plugins: what ``run_tests.py --plugin`` takes, and examples of it.

``python_gloo`` is a backend that is written in Python, on the CPU; ``faulty`` is the same with one fault
each, so that the reports about a target can be tried. They are beside the suites and not in ``harness``,
which has no process group of its own.
"""
