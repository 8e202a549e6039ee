"""Random programs of collectives, right ones and mutated ones, for ``tools/fuzz_communication.py``.

``case`` draws a case from its number, ``subject`` has the test classes that play one, ``player`` runs them in
a process, and ``judge`` compares what came with what was to come.
"""
