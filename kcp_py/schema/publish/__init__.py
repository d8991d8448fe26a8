"""OpenAPI documents of resources, in pieces that can be put together for any set of them.

Belongs here: the OpenAPI v2 and v3 documents of one kind, as a pure function of its schema and its verbs. Does not belong here: the
kinds that a cluster serves, caches, HTTP.
"""
