"""The faults that are the collectives' business, by what they are in."""
