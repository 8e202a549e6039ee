"""The rank mode "external": torchrun, srun or mpirun started the ranks, and this process is one of them."""
