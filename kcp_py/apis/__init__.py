"""API groups of the server's own, one package each: the resources that it describes and the code that serves them.

Belongs here: names, schemas, columns and `RestStorage` classes of a group. Does not belong here: Kubernetes' own kinds (registry.builtin),
what every group shares (registry).
"""
