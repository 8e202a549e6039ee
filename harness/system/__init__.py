"""Operating-system helpers: processes, forks, signals, descriptors, thread counts, temporary files."""
