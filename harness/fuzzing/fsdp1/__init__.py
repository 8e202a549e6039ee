"""Programs of FSDP1: the modules, steps and reference of those of FSDP2, with FSDP1's ways of sharding."""
