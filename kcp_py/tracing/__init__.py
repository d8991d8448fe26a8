"""Traces of requests: which are sampled, and their export to a collector of OpenTelemetry.

Belongs here: the configuration of traces, the decision about each request, spans. Does not belong here: where in the chain of filters a
span begins. The libraries of OpenTelemetry are an extra, and imported only where traces are configured.
"""
