package web

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// element is a hop in a Forwarded header; absent parameters are "".
type element struct {
	node  string // parameter for: an address, "unknown" or an obfuscated name
	host  string
	proto string
}

// parseForwarded parses a Forwarded header strictly by RFC 7239: no blanks around "=" and ";", no repeated parameters,
// quotes around non-tokens.
func parseForwarded(value string) ([]element, error) {
	var elements []element
	for rest := value; ; {
		rest = strings.TrimLeft(rest, " \t")
		e, after, err := nextElement(rest)
		if err != nil {
			return nil, err
		}
		if after != rest {
			elements = append(elements, e)
		}
		after = strings.TrimLeft(after, " \t")
		if after == "" {
			return elements, nil
		}
		if after[0] != ',' {
			return nil, fmt.Errorf("unexpected %q", after[0])
		}
		rest = after[1:]
	}
}

// nextElement parses up to the next comma.
func nextElement(s string) (e element, rest string, err error) {
	seen := map[string]bool{}
	for rest = s; rest != "" && strings.IndexByte(", \t", rest[0]) < 0; {
		if rest[0] == ';' {
			rest = rest[1:]
			continue
		}
		var name, value string
		if name, value, rest, err = nextPair(rest); err != nil {
			return e, rest, err
		}
		if seen[name] {
			return e, rest, errors.New("duplicate parameter in one element")
		}
		seen[name] = true
		if err := e.set(name, value); err != nil {
			return e, rest, err
		}
		if rest != "" && strings.IndexByte(";, \t", rest[0]) < 0 {
			return e, rest, fmt.Errorf("unexpected %q after a value", rest[0])
		}
	}
	return e, rest, nil
}

// nextPair returns the name in lower case.
func nextPair(s string) (name, value, rest string, err error) {
	n := tokenLen(s)
	if n == 0 || n == len(s) || s[n] != '=' {
		return "", "", s, errors.New("expected name=value")
	}
	name, rest = strings.ToLower(s[:n]), s[n+1:]
	if strings.HasPrefix(rest, `"`) {
		value, rest, err = quoted(rest[1:])
		return name, value, rest, err
	}
	n = tokenLen(rest)
	if n == 0 {
		return "", "", s, errors.New("empty parameter value")
	}
	return name, rest[:n], rest[n:], nil
}

// quoted parses a quoted string after its opening quote (RFC 9110, section 5.6.4).
func quoted(s string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '"' {
			return b.String(), s[i+1:], nil
		}
		if c == '\\' {
			if i++; i == len(s) {
				break
			}
			c = s[i]
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", "", errors.New("control character in a quoted string")
		}
		b.WriteByte(c)
	}
	return "", "", errors.New("unterminated quoted string")
}

// set stores a parameter. Unknown parameters are ignored, as RFC 7239, section 4, allows.
func (e *element) set(name, value string) (err error) {
	switch name {
	case "for":
		e.node, err = parseNode(value)
	case "by":
		_, err = parseNode(value)
	case "host":
		if _, _, ok := splitHost(value); !ok {
			return errors.New("malformed host")
		}
		e.host = value
	case "proto":
		e.proto = value
	}
	return err
}

// parseNode returns a node without its port and brackets (RFC 7239, section 6).
func parseNode(s string) (string, error) {
	bad := errors.New("malformed node identifier")
	name := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		port := s[i+1:]
		name = s[:i]
		if _, ok := parsePort(port); !ok && !obfuscated(port) {
			return "", bad
		}
	}
	if strings.EqualFold(name, "unknown") || obfuscated(name) {
		return name, nil
	}
	bare, bracketed := strings.CutPrefix(name, "[")
	if bracketed {
		if bare, bracketed = strings.CutSuffix(bare, "]"); !bracketed {
			return "", bad
		}
	}
	ip, err := netip.ParseAddr(bare)
	if err != nil || ip.Is6() != bracketed || ip.Zone() != "" {
		return "", bad
	}
	return bare, nil
}

// obfuscated follows RFC 7239, section 6.3.
func obfuscated(s string) bool {
	if len(s) < 2 || s[0] != '_' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !alphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// tokenLen returns the length of the token that s begins with (RFC 9110, section 5.6.2).
func tokenLen(s string) int {
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return i
		}
	}
	return len(s)
}
