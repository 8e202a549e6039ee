"""Self-tests of ``harness/communication/record``."""
