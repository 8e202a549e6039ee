"""What ``torch.distributed`` promises: its collectives, stores and groups on a real backend.

A test module a subject; ``base`` has the ground they stand on, ``inputs`` what ranks hold, ``reference``
what they must hold afterwards. The bodies name no backend: ``C10dTestCase.backend`` does, and what only gloo
does is in classes and modules that say so.

The faults that are the collectives' business, and what sees them:

* all_reduce is the identity, averages, or drops a rank's part: every test of a reduction. ``test_reference``
  proves the inputs able to show it. Reductions by other operations do not see an average.
* broadcast takes another source, scatter shifts its parts: every test of either; labels name their origin.
* a barrier does not wait: every test of ``barrier``; ``monitored_barrier`` is another collective.
* a wait does nothing: every test that moves data and is done by ``Work.wait``, by the member that comes
  late (``C10dTestCase``). Refusals, membership, and what is done by a future or in C++ do not touch it. It
  is a race that the fault loses some 99 times in 100.
"""
