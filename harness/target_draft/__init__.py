"""``torch-harness target new``: the first draft of a target, made by trying out what a backend can do.

``tries`` says what is tried, ``collective`` and ``capability`` how one try is made in a rank, ``rank`` what a
rank does with many, ``rounds`` starts two ranks again and again until all tries have ended, and
``module_text`` writes the findings as a plugin. ``cli`` is the command.
"""
