"""`x-kubernetes-validations`: the CEL rules of a schema, compiled with it and run on its objects.

Belongs here: what a schema is to CEL (types, names, sizes), the checks of rules when a CRD is written, and their evaluation with
correlation to the old object. Does not belong here: the language (`kcp_py.cel`), the other rules of schemas, I/O.
"""
