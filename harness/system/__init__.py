"""The operating system under the harness: processes, signals, descriptors, thread counts, temporary files."""
