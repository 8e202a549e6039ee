"""Ranks that are processes: fresh for each test, or kept in a pool from test to test."""
