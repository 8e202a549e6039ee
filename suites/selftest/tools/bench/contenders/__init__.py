"""Self-tests of the package ``tools.bench.contenders``."""
