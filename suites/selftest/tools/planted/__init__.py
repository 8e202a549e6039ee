"""A small suite with faults of its own, for the tests of tools/mutants.py; its tests are no test modules."""
