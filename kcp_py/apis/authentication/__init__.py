"""Kinds of `authentication.k8s.io`: questions about users.

Belongs here: the form of these kinds. Does not belong here: their answers (`authn.reviews`).
"""
