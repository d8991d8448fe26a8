"""What Go's standard library reads and writes: `net/url`, `net/netip`, `encoding/base64`, `encoding/json`, `regexp`, `strconv` and `time`.

Clients see Go's texts in messages, and rules of Kubernetes are defined by what Go accepts. Belongs here: pure functions that agree with one
Go package, in a module named after it. Does not belong here: anything that knows Kubernetes (`apimachinery`) or CEL (`cel`). The package
imports no other package of kcp_py, so that all of them, settings included, can use it.

| module | Go | entry points |
|---|---|---|
| `addresses` | `net/netip` | `parse_address`, `parse_prefix` |
| `base64` | `encoding/base64` | `canonical_base64` |
| `durations` | `time.ParseDuration` | `parse_duration` |
| `floats` | `strconv.FormatFloat`, `%v` | `format_float`, `format_number` |
| `json` | `encoding/json` | `go_json` |
| `quoting` | `strconv.Quote` | `go_quote` |
| `regexp` | `regexp` | `compile_pattern`, `compile_finder`, `check_pattern` |
| `times` | `time.Parse` | `parse` |
| `types` | `fmt`: `%T`, `%v`, `%#v` | `go_type`, `go_text`, `go_syntax`, `json_type` |
| `urls` | `net/url` | `parse_url`, `check_request_uri` |

Errors are subclasses of ValueError whose text is Go's. Patterns are compiled with RE2, as Go's are; the time that one search may take is
limited (`regexp.searches`).
"""
