"""Compile patterns that distributed training relies on: hooks, storages that come and go, version counters.

One process each, with no process group: what is imitated is what FSDP does to a module, not what it sends.
"""
