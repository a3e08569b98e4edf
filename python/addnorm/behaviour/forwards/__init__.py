"""Checks of what a forward computes, from the functions and modules that it calls, and of a traced output."""
