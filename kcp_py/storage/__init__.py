"""The revisioned key/value store: its contract, its keys and its drivers.

Belongs here: bytes under keys at revisions. Does not belong here: objects, JSON, Kubernetes errors, HTTP.
Read `contract` first; each driver is a package of its own and is opened through `open_storage`.
"""
