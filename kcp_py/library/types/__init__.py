"""Resources from Pydantic models and dataclasses: their schemas, typed hooks, and conversions between their versions.

Belongs here: reading types, and what their authors say about the resource. Does not belong here: typed objects of clients
(`kcp_py.client`), and how stored resources are served (`kcp_py.registry`). Pydantic is imported only where a program has imported it
already, or when objects of a type are made.
"""
