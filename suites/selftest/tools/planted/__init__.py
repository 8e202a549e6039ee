"""Small suites for the tests of tools, with planted faults or flaky; discovery does not find their tests."""
