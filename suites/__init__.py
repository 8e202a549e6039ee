"""The conformance suites, and the tests of the harness itself."""
