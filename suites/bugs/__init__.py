"""The book: what random programs have found in torch, a script each, which a test runs in a fresh process."""
