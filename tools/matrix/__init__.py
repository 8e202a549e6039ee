"""The self-tests and the suites on every Python and torch release that this machine can install."""
