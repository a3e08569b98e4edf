"""The model with its batch, its runs and its structure, which all checks use."""
