"""Records one forward pass of a model as a graph of values, operators and calls of modules."""
