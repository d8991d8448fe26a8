"""The API's rules over plain values: kinds, object metadata, selectors, names, Status errors, patches, tokens.

Belongs here: what k8s.io/apimachinery knows, as pure functions. Does not belong here: I/O, clocks, storage, HTTP, schemas of particular
kinds.
"""
