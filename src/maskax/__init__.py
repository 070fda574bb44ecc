"""Masks for JAX: write a function for one example, run it on padded batches, get exactly the same function."""

__version__ = "0.1.0"
