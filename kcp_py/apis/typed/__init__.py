"""Kinds that clients are compiled with: objects are decoded and encoded as structs of Go.

Belongs here: what such kinds have in common, whatever their group and however they come to a cluster. Does not belong here: rules of
single kinds.
"""
