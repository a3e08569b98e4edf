"""Finds layers, the residual stream, norms, sums, lanes and sublayers in the recorded graph of a forward pass."""
