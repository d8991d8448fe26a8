"""The verbs of resources, below HTTP: what a handler, the in-process client and a controller call alike.

Belongs here: what a verb means for a resource or one of its subresources, from a decoded request to a call of the store. Does not belong
here: bytes, headers and answers (server), transactions (registry.store), rules of single kinds (strategies).
"""
