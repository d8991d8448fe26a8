"""asyncio primitives for any program.

Belongs here: small building blocks that do not depend on Kubernetes. Does not belong here: code that depends on requests, objects or
stores.
"""
