"""What a request is, as pure values: its logical cluster, what it asks for, who makes it.

Belongs here: `RequestInfo` and `UserInfo`, the parsers of paths and queries, and `RequestContext`, which holds them together. Every layer
above may name them. Does not belong here: headers, bodies and responses (server), how a caller is recognised (authn), what a caller may
do (authz).
"""
