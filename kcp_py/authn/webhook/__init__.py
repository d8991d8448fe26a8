"""Tokens that a webhook of the operator vouches for.

Belongs here: the question to the webhook, what its answer means, and for how long it is kept. Does not belong here: connections and
repetitions (`egress`), the order of authenticators (`controlplane`).
"""
