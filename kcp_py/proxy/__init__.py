"""A caching proxy in front of a Kubernetes API server: reads and watches of many clients from one list and watch of each resource.

Belongs here: which requests the cache can answer, for whom, and how the others are passed on. Does not belong here: sockets and TLS
of the proxy (`serving`).
"""
