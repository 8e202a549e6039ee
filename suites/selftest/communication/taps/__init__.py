"""Self-tests of ``harness/communication/taps``."""
