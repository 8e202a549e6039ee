"""Random mutants of torch's own Python source (``tools/mutate.py``): rules, planting, trials, score."""
