"""What collectives compute, under ``HARNESS_COMM_CHECK=values``: kept in a rank, and checked beside numpy."""
