"""Suites: item format, generators, scorers, lm-eval task files and the items."""
