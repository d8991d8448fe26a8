"""The group `certificates.k8s.io`: requests for client certificates, and the certificates that answer them.

Belongs here: the rules of the kind (kubernetes `pkg/apis/certificates`), reading requests, making certificates. Does not belong here: who
may approve (`kcp_py.admission`), when requests are signed (`kcp_py.controllers`), what a certificate means for a caller (`kcp_py.authn`).
"""
