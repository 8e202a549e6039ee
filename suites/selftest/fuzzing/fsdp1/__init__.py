"""Self-tests of the fuzzer of FSDP1."""
