"""Self-tests of ``harness/communication/tensor_values``."""
