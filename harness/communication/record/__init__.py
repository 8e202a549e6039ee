"""What is recorded in a rank: of each call its arguments, numbers, group, line, waits and memory."""
