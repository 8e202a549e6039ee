"""What the hosts of a run say to each other, and how they come together. Imports no torch."""
