"""Where calls are seen: which functions of torch are wrapped in a rank, and when they are."""
