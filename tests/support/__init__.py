"""Shared by the tests over the wire; see tests/README.md."""
