"""Self-tests of the fuzzer of DDP."""
