"""What ``tools/hunt.py`` is made of: programs on ranks, finds, their journal, and the page of the book."""
