"""Turns what was found into the lines of a profile: chooses values, requests their fits, and names the site."""
