"""The programs by which the communication checker is judged: one known bug each, or none."""
