"""Checks of parameters: their gradients, their values and their optimizer."""
