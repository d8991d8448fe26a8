"""HTTP/1.1 and WebSocket on sockets: connections, TLS, certificates, limits and timers below the ASGI application.

Belongs here: what reads and writes bytes of connections, and uvicorn, which it subclasses. Does not belong here: what a request means
(server), commands and their output (cli).
"""
