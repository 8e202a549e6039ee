"""When each test runs and beside what: attempts, batches, expected times, the capacity of the machine."""
