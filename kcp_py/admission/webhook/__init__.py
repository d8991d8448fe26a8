"""Admission webhooks: MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

Belongs here: the webhooks of each cluster, the reviews that they are sent, calls, and what their answers do to a write. Does not belong
here: which configurations are valid (`apis.admissionregistration`), which requests a rule selects (shared with policies,
`admission.policy`), connections (`egress`).
"""
