"""Writes the lines of a profile: chooses the values of each site, and requests their fits and gradients."""
