"""A small suite with planted faults for the tests of tools/mutants.py; discovery does not find its tests."""
