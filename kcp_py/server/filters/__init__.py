"""The filters that every request passes, one class per module, each a plain ASGI application around the next.

Belongs here: decisions for every request, from the outside to the inside. Does not belong here: anything about a particular
resource (handlers), framework middleware (it costs a task and a queue per request and breaks long watches).

A filter that waits for nothing is a plain function which returns what the next one returns: a coroutine less for every request, and one
frame less that each of its wake-ups goes through. Like a coroutine, it is called within the `try` of the filter outside of it.
"""
