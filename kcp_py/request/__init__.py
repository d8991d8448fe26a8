"""A request as pure values: its logical cluster, its verb and resource, its user.

Belongs here: `RequestInfo` and `UserInfo`, the parsers of paths and queries, and `RequestContext`, which combines them. All layers
above may use them. Does not belong here: headers, bodies and responses (server), identification of callers (authn), permissions
(authz).
"""
