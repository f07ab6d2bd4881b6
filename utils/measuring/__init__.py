"""The parts of utils/measure; tests/bench/README.md describes what is measured and how."""
