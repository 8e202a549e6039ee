"""The rank mode "local": one process simulates every rank of a DTensor test with torch's local tensors."""
