"""What the tests over the wire share; see tests/README.md."""
