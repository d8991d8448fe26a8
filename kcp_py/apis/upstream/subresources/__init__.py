"""The subresources of pods, services and nodes that are neither `/status` nor `/scale`.

Belongs here: what they answer and change. Does not belong here: the rules of the objects themselves (`apis.upstream.validation`), and
connections to anything outside of the store, which this server does not make.
"""
