"""Which collectives ranks call: recorded in each rank, logged in shared memory, matched between ranks."""
