"""Faults of the ahead-of-time compiler, by where they are: its entries, its graphs, what runs around them."""
