"""One process that plays every rank of a DTensor test, on torch's local tensors."""
