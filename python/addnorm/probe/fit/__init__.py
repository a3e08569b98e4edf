"""Fits numbers to what was found: what a sum is made of, which norm made an output, how attention scores.

Each fit has two halves. One computes a few sums of products on the model's device, for all tensors of a layer
that have one shape together; its tensors have a first axis for these. The other half gets the numbers on the
host, solves for coefficients and decides. Between the two stands `Fits`, which brings the numbers of a whole
step to the host in one transfer.
"""
