"""Tests of the small models for tests of FSDP and DTensor."""
