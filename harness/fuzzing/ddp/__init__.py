"""Fuzzes DDP: random small modules, options and steps, against one process that computes what all ranks do.

``blocks`` is the table of what modules are made of, ``program`` a module with its options and steps,
``training`` has the two runs that are compared, and ``hunted`` the fuzzer.
"""
