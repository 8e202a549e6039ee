"""Ranks that somebody else started (torchrun, srun, mpirun): this process is one of them."""
