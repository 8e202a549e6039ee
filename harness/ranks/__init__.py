"""How the ranks of a test are started, watched and ended: one folder per rank mode, and what all modes
share."""
