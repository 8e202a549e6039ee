"""``torch.compile`` on FSDP1 and FSDP2: what is captured, what is sent, and what a model learns by it.

A test module a subject; ``base`` has the ground they stand on, ``models`` what they train, ``reference`` what
one process that shards nothing makes of the rows of all ranks, ``traffic`` what ranks send.
"""
