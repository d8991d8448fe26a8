"""YAML as sigs.k8s.io/yaml reads and writes it."""
