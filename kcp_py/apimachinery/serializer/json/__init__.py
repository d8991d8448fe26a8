"""JSON as sigs.k8s.io/json reads and writes it."""
