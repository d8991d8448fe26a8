"""Fixed pages: health, version, metrics, the index, and the FastAPI application that hosts them.

Belongs here: paths outside the resource tree. Does not belong here: `/api`, `/apis`, `/openapi` (handlers), authentication (the filters are
around the pages as around everything).
"""
