"""Fuzzes FSDP2: random small modules, plans, options and steps, against one process that shards nothing.

``program`` is a module with its plan, options and steps, ``training`` has the two runs that are compared, and
``hunted`` the fuzzer. What modules are made of is ``harness/fuzzing/blocks.py``, shared with DDP's fuzzer.
"""
