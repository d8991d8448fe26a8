"""API groups, one package each: the rules, columns and `RestStorage` classes of their resources.

Belongs here: everything that is special to the resources of a group. `typed` has what kinds have in common that clients are compiled with,
`builtin` puts the resources together that every cluster serves, `upstream` has the other kinds of Kubernetes. Does not belong here: what
all groups share (registry); schemas and protobuf tables of Kubernetes, which packages below this one read, too (bootstrap).
"""
