package sigv4

import (
	"strconv"
	"strings"
	"time"
)

// maxExpires is seven days, in seconds.
const maxExpires = 604800

func isPresigned(query string) bool {
	return hasParameter(query, "X-Amz-Algorithm") || hasParameter(query, "X-Amz-Credential") || hasParameter(query, "X-Amz-Signature")
}

func isVersion2(query string) bool {
	return hasParameter(query, "AWSAccessKeyId") && hasParameter(query, "Signature")
}

// hasParameter reports whether a query names a parameter, without decoding it.
func hasParameter(query, name string) bool {
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		if rest, ok := strings.CutPrefix(part, name); ok && (rest == "" || rest[0] == '=') {
			return true
		}
	}
	return false
}

// presigned are a presigned URL's parameters.
type presigned struct {
	algorithm, credential, date, expires, signed, signature, payload string
}

func (p *presigned) field(name string) *string {
	switch name {
	case "X-Amz-Algorithm":
		return &p.algorithm
	case "X-Amz-Credential":
		return &p.credential
	case "X-Amz-Date":
		return &p.date
	case "X-Amz-Expires":
		return &p.expires
	case "X-Amz-SignedHeaders":
		return &p.signed
	case "X-Amz-Signature":
		return &p.signature
	case "X-Amz-Content-Sha256":
		return &p.payload
	}
	return nil
}

// readPresigned returns the parameters, each of which may occur once.
func readPresigned(params []parameter) (p presigned, err error) {
	for _, param := range params {
		if param.name == "X-Amz-Security-Token" {
			return p, errSessionToken()
		}
		field := p.field(param.name)
		if field == nil {
			continue
		}
		if *field != "" || param.value == "" {
			return p, refuse(MalformedQuery, "%s must occur once in the query and must have a value", param.name)
		}
		*field = param.value
	}
	for _, name := range [...]string{"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature"} {
		if *p.field(name) == "" {
			return p, refuse(MalformedQuery, "a presigned URL must have the parameter %s", name)
		}
	}
	return p, nil
}

func (r Request) parsePresigned(params []parameter) (c claim, err error) {
	p, err := readPresigned(params)
	if err != nil {
		return c, err
	}
	if p.algorithm != algorithm {
		return c, refuse(Unsupported, "X-Amz-Algorithm must be %s", algorithm)
	}
	c.presigned = true
	var problem string
	var ok bool
	if c.credential, problem = parseCredential(p.credential); problem != "" {
		return c, refuse(MalformedQuery, "X-Amz-Credential: %s", problem)
	}
	if c.signed, problem = parseSignedHeaders(p.signed); problem != "" {
		return c, refuse(MalformedQuery, "X-Amz-SignedHeaders: %s", problem)
	}
	c.list, c.provided = p.signed, p.signature
	if c.signature, ok = parseSignature(p.signature); !ok {
		return c, refuse(MalformedQuery, "X-Amz-Signature must be 64 lower-case hexadecimal digits")
	}
	if c.time, ok = parseStamp(p.date); !ok {
		return c, refuse(MalformedQuery, "X-Amz-Date must be a time such as 20130524T000000Z")
	}
	if c.stamp = p.date; c.stamp[:len(dateFormat)] != c.date {
		return c, refuse(MalformedQuery, "the dates in X-Amz-Credential and X-Amz-Date must be equal")
	}
	if c.expires, ok = parseExpires(p.expires); !ok {
		return c, refuse(MalformedQuery, "X-Amz-Expires must be a number of seconds from 1 to %d", maxExpires)
	}
	// rclone signs the hash in a header, the JavaScript SDK in the query.
	c.payload = p.payload
	if value, ok := r.header("x-amz-content-sha256"); ok && c.payload == "" {
		c.payload = value
	}
	if c.payload == "" {
		c.payload = UnsignedPayload
	}
	return c, nil
}

func parseExpires(text string) (time.Duration, bool) {
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return time.Duration(n) * time.Second, err == nil && n >= 1 && n <= maxExpires
}
