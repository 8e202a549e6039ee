"""The fake accelerator of ``suites.targets.hostmem``: its C++, and torch's module for it."""
