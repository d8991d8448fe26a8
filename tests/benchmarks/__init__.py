"""`make bench`: the cost of the server compared with a bare one, in the same run and on the same core.

Every row runs a real server process pinned to one core and a load generator pinned to another. Where a row has a bare figure, it
comes from a bare ASGI app on the same uvicorn (with the same certificate, answering with the same bytes) or from a bare SQLite
loop, so that ratios can be compared between machines. Nothing here asserts a time: the figures are for reading.
"""
