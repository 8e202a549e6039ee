"""Tests of ``tools.matrix``: which pairs there are, how they are made, and what the table says of them."""
