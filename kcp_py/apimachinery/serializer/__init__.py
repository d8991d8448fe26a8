"""Bytes to decoded objects and back: JSON, YAML and protobuf.

Belongs here: the wire formats of k8s.io/apimachinery `pkg/runtime/serializer`, one package each. Does not belong here: content negotiation,
schemas, the fields of particular kinds.
"""
