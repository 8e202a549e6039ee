"""The conformance suites, and the tests of the harness itself."""

import os

if os.environ.get("SUITES_MUTANT"):  # tools/mutants.py: a fault is to be planted wherever a suite is imported
    from suites.planting import plant_from

    plant_from(os.environ)

if os.environ.get(
    "TOOLS_LINES"
):  # tools/mutate.py: which test runs is to be known wherever a suite is imported
    from suites.planting import note_the_running_test

    note_the_running_test()
