"""Authorization by webhooks of the operator.

Belongs here: the questions to webhooks, the conditions under which they are asked, and what their answers mean. Does not belong here: the
order of authorizers (`authz.configuration`), connections (`egress`).
"""
