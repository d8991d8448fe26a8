"""What expressions can call: one module for each library, named as cel-go or Kubernetes names it.

Belongs here: declarations (`declarations.Library`) with the functions that run them, over run-time values. Does not belong here: the
language itself, and costs, which are one table (`costs.py`) because upstream keeps them in one place.
"""
