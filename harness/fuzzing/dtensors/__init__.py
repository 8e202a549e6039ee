"""Fuzzes DTensor: random programs of operators on random meshes and placements, beside plain tensors.

``draw`` makes a program of a seed, ``pairs`` some of a table of pairs; ``execute`` runs it and says what
differs, ``shrink`` makes it smaller and ``source`` writes it as a script that needs torch only. ``operators``
is the table that programs are drawn from.
"""
