"""Adapters for frameworks, so that they work with all logical clusters.

One module for each framework. A module imports its framework, which is an optional dependency. Adapters are clients and use a server
only over HTTP.
"""
