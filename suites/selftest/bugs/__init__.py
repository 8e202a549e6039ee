"""Tests of what reads the book of bugs."""
