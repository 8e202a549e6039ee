"""Self-tests of the package ``harness.ranks.external``."""
