"""The kinds of Kubernetes that clusters do not serve by default, but may be given as CRDs or by an option.

Belongs here: the rules, schemas, CRDs, columns and conversions of these kinds, and their provider for the compilation of CRDs. All but the
provider are loaded when the first of these kinds is served. Does not belong here: the published models, which are data
(`kcp_py.bootstrap`), and built-in kinds (their groups).
"""
