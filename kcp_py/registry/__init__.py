"""Objects instead of bytes: the generic store, the verbs, the catalog of what clusters serve.

Belongs here: what happens to an object between a decoded request and a storage transaction, for every kind alike, and the tables
that say which resources a cluster serves. Does not belong here: HTTP, permissions, the life of a logical cluster, the rules of
single kinds (apis).
"""
