"""Field ownership: who manages which field of an object, and server-side apply over it. Pure functions over decoded JSON.

Belongs here: sets of fields and their algebra, typed values (their fields, comparison, merging, removal of fields), the rules of ownership,
and the entries of `metadata.managedFields`. Does not belong here: where types come from, requests, the store.

Source: sigs.k8s.io/structured-merge-diff and k8s.io/apimachinery `pkg/util/managedfields`.
"""
