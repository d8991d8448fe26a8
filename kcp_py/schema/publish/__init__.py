"""OpenAPI documents of resources, in pieces that can be put together for any set of them.

Belongs here: what OpenAPI v2 and v3 say of one kind, as a pure function of its schema and its verbs. Does not belong here: which kinds a
cluster serves, caches, HTTP.
"""
