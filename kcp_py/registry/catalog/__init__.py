"""What logical clusters serve: an ordered list of sources, and one table per cluster that is their sum.

Belongs here: the contract of sources, the sources of built-in and of custom resources, tables, and the resources of all clusters together.
Does not belong here: the resources themselves (apis), objects (registry.store), documents about resources (registry.discovery,
registry.openapi).
"""
