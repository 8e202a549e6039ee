"""``torch-harness migrate``: rewrites imports of torch's private test modules to imports from ``harness``.

    names      which name of torch's has which counterpart, or why it has none
    rewrite    the text of a file before and after, and what was left in it
    files      reads and writes files: encoding, line endings, mode, in one step
    cli        the command line

Imports no torch. ``rewrite`` needs libcst, of the extra ``migrate``.
"""
