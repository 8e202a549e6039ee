"""Tests of ``torch-harness migrate``, on texts, files and its command line."""
