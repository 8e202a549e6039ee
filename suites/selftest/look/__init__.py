"""Tests of looks at runs that go on, from outside."""
