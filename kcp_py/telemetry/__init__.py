"""Metric definitions, the set-up of logs, audit ids.

Belongs here: definitions and sinks that do not depend on requests or resources. Does not belong here: the decision what to record (filters
and controllers), third-party exporters.
"""
