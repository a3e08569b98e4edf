"""Checks of further runs with a change that must not affect the output."""
