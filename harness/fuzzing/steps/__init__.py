"""Fuzzes this project's tracer of train steps: random modules and optimizers, traced and in eager.

``program`` is a train step as a value, which it draws and makes smaller; ``training`` runs it in both ways;
``hunted`` is the fuzzer.
"""
