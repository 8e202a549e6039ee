"""Records which collectives each rank calls, logs them in shared memory, and matches them between ranks."""
