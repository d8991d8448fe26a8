"""Adapters that let frameworks of others work with all logical clusters.

One module for each framework. A module here imports its framework, which is an optional dependency, and nothing else of this package:
adapters are clients and talk to a server over HTTP only.
"""
