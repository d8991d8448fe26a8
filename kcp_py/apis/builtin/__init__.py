"""The resources that the server serves in every cluster without a CRD, put together from their groups and their schemas.

Belongs here: the list of built-in resources. Does not belong here: the rules of one group (its package), schemas (`kcp_py.bootstrap`),
the rules that all kinds share (`kcp_py.registry.store`).
"""
