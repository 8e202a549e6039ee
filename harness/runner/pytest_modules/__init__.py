"""Test modules that have to run through pytest: which they are, and how workers list and run them."""
