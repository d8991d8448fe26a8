"""The group `admissionregistration.k8s.io`: configurations of admission webhooks, admission policies and their bindings.

Belongs here: the rules of the kinds of the group (kubernetes `pkg/apis/admissionregistration`). Does not belong here: what matches, calls
and evaluates them (`kcp_py.admission`).
"""
