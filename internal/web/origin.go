package web

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// Origin is the public address: scheme, host and port, which clients sign, and the path prefix.
type Origin struct {
	Scheme string // "http" or "https"
	Host   string // lower case; IPv6 without brackets
	Port   uint16 // never 0; the scheme's default if the URL has none
	Prefix string // "" or "/…" without a trailing slash
}

// ParseOrigin parses a public URL such as https://example.org:8443/sync; the path prefixes all paths. It returns
// errcode.Invalid for another scheme, a user, a query, a fragment, or a path with several spellings.
func ParseOrigin(text string) (Origin, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Origin{}, errcode.New(errcode.Invalid, "the public URL is malformed")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return Origin{}, errcode.New(errcode.Invalid, "the public URL must begin with http:// or https://")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") {
		return Origin{}, errcode.New(errcode.Invalid, "the public URL must have only a scheme, a host, a port and a path")
	}
	host, port, ok := splitHost(u.Host)
	if !ok {
		return Origin{}, errcode.New(errcode.Invalid, "the public URL has no valid host")
	}
	prefix := strings.TrimRight(u.EscapedPath(), "/")
	if !plainPath(prefix) {
		return Origin{}, errcode.New(errcode.Invalid, "the public URL's path must consist of non-empty segments of letters, digits and . _ ~ -")
	}
	if port == 0 {
		port = defaultPort(u.Scheme)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String() // browsers normalize it before signing
	}
	return Origin{Scheme: u.Scheme, Host: host, Port: port, Prefix: prefix}, nil
}

// String omits the default port and the trailing slash.
func (o Origin) String() string {
	host := o.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if o.Port != defaultPort(o.Scheme) {
		host += ":" + strconv.Itoa(int(o.Port))
	}
	return o.Scheme + "://" + host + o.Prefix
}

// Map interprets a raw path (and query) that arrived with the prefix, or without it because a proxy removed it. A
// target that begins with the prefix counts as complete, so a proxy that removes the prefix must not receive paths
// like /sync/sync/….
func (o Origin) Map(target string) (public, inner string) {
	if o.Prefix == "" {
		return target, target
	}
	if rest, ok := strings.CutPrefix(target, o.Prefix); ok {
		switch {
		case rest == "", rest[0] == '?':
			return target, "/" + rest
		case rest[0] == '/':
			return target, rest
		}
	}
	return o.Prefix + target, target
}

func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// splitHost splits host:port strictly. port is 0 if absent; the host is lower case, IPv6 without brackets.
func splitHost(s string) (host string, port uint16, ok bool) {
	host = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		if port, ok = parsePort(s[i+1:]); !ok {
			return "", 0, false
		}
		host = s[:i]
	}
	if strings.HasPrefix(host, "[") {
		ip, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		if err != nil || !ip.Is6() || ip.Zone() != "" || !strings.HasSuffix(host, "]") {
			return "", 0, false
		}
		return strings.ToLower(host[1 : len(host)-1]), port, true
	}
	return strings.ToLower(host), port, validName(host)
}

// parsePort accepts 1 to 65535 without leading zeros.
func parsePort(s string) (uint16, bool) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil
}

// validName accepts underscores, which are not standard but in use.
func validName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// plainPath accepts "" and paths with only one spelling: no escapes, empty segments, "." or "..".
func plainPath(s string) bool {
	if s == "" {
		return true
	}
	for segment := range strings.SplitSeq(s[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
		for i := range len(segment) {
			if c := segment[i]; !alphanumeric(c) && !strings.ContainsRune("._~-", rune(c)) {
				return false
			}
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
