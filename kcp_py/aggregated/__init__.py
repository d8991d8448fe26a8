"""A control plane as an aggregated API server: part of another Kubernetes API server, which forwards API groups to it.

Belongs here: the things that the control plane leaves to the other server (who callers are, what they may do, which namespaces exist),
and the objects that register it there. Does not belong here: resources (`controlplane`), sockets and TLS (`serving`).
"""
