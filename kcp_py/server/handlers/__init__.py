"""The verbs of resources over HTTP: one module each, the same for every kind.

Belongs here: from a request to calls of the registry, and from their results to a response in the negotiated form. Does not belong
here: rules of objects (registry), who may do it (authz), which cluster a request is for (filters).
"""
