"""What ``torch.distributed`` promises: its collectives, stores and groups on a real backend.

A test module a subject; ``base`` has the ground they stand on, ``inputs`` what ranks hold, ``reference``
what they must hold afterwards. The bodies name no backend: ``C10dTestCase.backend`` does, and what only gloo
does is in classes and modules that say so.

The ranks of a class are kept from test to test: fresh ones for each test take twice the time, most of it in
the kernel. That gives up that a test begins in a process that ran no other. What a test leaves in Python or
in torch the harness sees, and replaces the rank; state of a backend that outlives its group it does not see.
So a test that fails is tried again on fresh ranks, and its failure says whether it fails there too.
``HARNESS_RANKS=fresh`` or ``--ranks fresh`` gives each test its own. Tests of what a process does once
(``rank_modes = ("fresh",)``) have their own in any case.

``faults`` has the faults that are this suite's business, ``mutants`` the list of them and of the tests that
may pass all the same (``python tools/mutants.py c10d``). What the tests rely on to see them:

* a reduction that drops, repeats or averages: ``inputs`` whose results change with every single part, which
  ``test_reference`` proves.
* data that goes to the wrong place: labels that name their origin in every element.
* a wait or a barrier that does not wait: the member that comes late (``C10dTestCase``). It is a race that the
  fault loses some 99 times in 100. Refusals, membership, and what is done by a future or in C++ do not wait
  by ``Work.wait``.
* anything of DDP: a copy of the model that is given all ranks' rows, and ranks that all start from another
  state than rank 0 (``DdpTestCase``).
* whatever else: random programs of all of it (``test_fuzzing``).
"""
