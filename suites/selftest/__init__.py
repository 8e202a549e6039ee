"""Tests of the harness itself, mirroring harness/ and tools/."""
