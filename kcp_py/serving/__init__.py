"""HTTP/1.1 and WebSocket on sockets: connections, TLS, certificates, limits and timers below the ASGI application.

Belongs here: what reads and writes bytes of connections (its rules without I/O in `http1`), and uvicorn, which runs the server (`server`).
Does not belong here: what a request means (server), commands and their output (cli).
"""
