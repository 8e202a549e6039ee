"""``torch.compile`` on ``DistributedDataParallel``: how DDPOptimizer splits graphs, and what they compute.

A test module a subject; ``base`` has the ground they stand on, ``models`` what they compile.
"""
