"""Test impact analysis: which files each test executes, and so which tests a change of files can affect.

    --record-map --> recorder (workers, ranks, their children) --> notes --> impact_map   tests -> files
    --changed, --affected-by --> changes (of files) --> decision (pure) --> the tests to run, and why
                                 known_tests (of the map recorded here, and of the suites')  ^

``tools/mutate.py`` keeps the lines that tests execute by the same notes.
"""
