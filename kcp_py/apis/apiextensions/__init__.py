"""The group `apiextensions.k8s.io`: CustomResourceDefinitions as objects.

Belongs here: the life of a CRD in the registry. Does not belong here: what a CRD must look like (`kcp_py.schema.crd`), what it serves
(`kcp_py.registry.catalog`).
"""
