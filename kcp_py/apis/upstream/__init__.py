"""The kinds of Kubernetes that clusters do not serve by default, but may be given as CRDs or by an option.

Belongs here: the rules, columns and conversions of these kinds, and their provider for the compilation of CRDs. All but the provider are
loaded when the first of these kinds is served. Does not belong here: schemas (`kcp_py.bootstrap`), built-in kinds (their groups).
"""
