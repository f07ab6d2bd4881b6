"""The parts of utils/measure; tests/bench/README.md says what is measured and how."""
