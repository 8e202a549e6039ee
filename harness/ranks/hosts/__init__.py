"""Fresh and pooled ranks over several hosts: relayed from the servers of these hosts."""
