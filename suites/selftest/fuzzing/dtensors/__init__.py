"""Self-tests of the fuzzer of DTensor programs."""
