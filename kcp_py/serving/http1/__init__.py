"""HTTP/1.1 without I/O: reading requests, writing responses, ending connections.

Here belong state machines over bytes and points in time. They know no socket, no event loop and no clock: the connection passes in what
arrived and what time it is, and carries out what comes back. The division is that of h11 (https://h11.readthedocs.io).

* `reader.RequestReader`: bytes in, `events` out, with the deadlines of requests and their `limits`.
* `slices.Slices`: where received bytes are cut before they are parsed, and the counts of bytes that are limited.
* `responses.ResponseWriter`: a response in, bytes out.
* `closing.Closing`: how a connection ends so that its client can read the last response.
* `head`: what the head of a request may say.
"""
