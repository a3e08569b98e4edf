"""Fits the numbers of a profile: the factors of sums, the kinds of norms, the logits of attention.

Each fit has two halves. The first computes a few numbers on the model's device, in one batch for tensors of one shape;
the first axis of its tensors is the batch. The second half gets these numbers on the host, and solves for
coefficients. `Fits` transfers the numbers of a whole step to the host at once.
"""
