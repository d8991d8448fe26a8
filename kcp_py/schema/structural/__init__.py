"""Structural schemas: one tree of nodes, the closures that are compiled from it, and the walks over it.

Belongs here: `Node`, and the functions that prune, default, validate and describe values by it. Does not belong here: CEL rules
(`schema.rules`), the rules for CustomResourceDefinitions (`schema.crd`), OpenAPI documents for clients (`schema.publish`).
"""
