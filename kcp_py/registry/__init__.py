"""Objects instead of bytes: the generic store, the strategies of kinds, the resource tables of clusters.

Belongs here: what happens to an object between a decoded request and a storage transaction, for every kind alike, and the tables
that say which resources a cluster serves. Does not belong here: HTTP, who may do what, the life of a logical cluster.
"""
