"""Kinds of `authorization.k8s.io`: questions about permissions.

Belongs here: the form and the rules of these kinds. Does not belong here: their answers (`authz.reviews`).
"""
