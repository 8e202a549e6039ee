"""Self-tests of ``harness/communication/analysis``."""
