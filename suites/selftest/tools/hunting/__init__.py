"""Tests of what the hunt is made of."""
