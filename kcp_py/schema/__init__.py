"""Structural schemas: compile, prune, default, validate, publish. Pure functions over decoded JSON.

Belongs here: what an OpenAPI v3 schema means for a value, and the rules a CustomResourceDefinition has to obey. Does not belong here:
I/O, storage, clusters, HTTP. Compiled schemas are immutable values, shared between clusters by content.
"""
