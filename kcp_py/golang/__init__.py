"""What Go's standard library reads and writes: `net/url`, `net/netip`, `encoding/base64`, `encoding/json`, `strconv` and `time`.

Clients see Go's texts in messages, and rules of Kubernetes are defined by what Go accepts. Belongs here: pure functions that agree with one
Go package, named after it. Does not belong here: anything that knows Kubernetes (apimachinery) or CEL (cel).
"""
