"""Self-tests of ``harness.dropin``, which runs upstream's test files on this harness's ranks."""
