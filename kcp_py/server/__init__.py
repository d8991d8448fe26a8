"""The ASGI edge: from bytes on a connection to a verb handler and back.

Belongs here: filters, the request path parser, content negotiation, the exchange with the client, fixed pages, the verb handlers.
Does not belong here: what objects mean (registry), who may do what (authn, authz), start-up and wiring (controlplane).
"""
