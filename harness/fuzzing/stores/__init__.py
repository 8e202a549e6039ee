"""Random programs of operations on torch's stores by several clients, beside a model of what a store is.

One client at a time is compared with the model call by call; clients that run side by side are checked for
linearizability: whether some order of their calls gives what each was told.
"""
