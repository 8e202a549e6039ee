"""The conformance suites, and the tests of the harness itself."""

import os

if os.environ.get("SUITES_MUTANT"):  # tools/mutants.py: a fault is to be planted wherever a suite is imported
    from suites.planting import plant_from

    plant_from(os.environ)
