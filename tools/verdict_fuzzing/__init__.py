"""Random cases of ranks that go wrong, for ``tools/fuzz_verdicts.py``, and the verdict that each must have.

``case`` draws a case from its seed, ``faults`` has what a rank does, ``model``, ``limits`` and ``oracle`` say
what must come of it and know nothing of the harness; ``subject`` makes the test class, ``driver`` and
``external_driver`` run it in processes that ``batch`` starts, and ``observation``, ``telling`` and
``leftovers`` are what these look at.
"""
