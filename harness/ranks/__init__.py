"""How the ranks of a test are started, watched and ended: one folder per rank mode, shared parts beside them.
"""
