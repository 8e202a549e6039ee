"""SPMD: collectives over meshes under tracing, DTensor, and whole train steps as one graph."""
