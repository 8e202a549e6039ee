"""What the ranks of a test are: one folder a rank mode, and beside the folders what all modes share."""
