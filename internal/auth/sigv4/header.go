package sigv4

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// claim is a request's signature and everything that it claims to cover.
type claim struct {
	credential
	signed    []string // names of signed headers
	list      string   // the same, as sent
	provided  string   // hexadecimal signature
	signature [32]byte
	stamp     string // time, as sent
	time      time.Time
	expires   time.Duration // presigned URL only
	payload   string        // x-amz-content-sha256 as signed
	presigned bool
	version2  bool // only keyID is set
}

// parseHeader reads the Authorization header.
func (r Request) parseHeader() (c claim, err error) {
	value, _, ok := single(r.Header, "Authorization")
	switch {
	case !ok:
		return c, refuse(MalformedHeader, "the request has more than one Authorization header")
	case len(value) > maxAuthorization:
		return c, refuse(MalformedHeader, "the Authorization header is longer than %d bytes", maxAuthorization)
	}
	scheme, rest, _ := strings.Cut(value, " ")
	if scheme != algorithm {
		return c, refuse(Unsupported, "the Authorization header must use %s", algorithm)
	}
	fields, err := parseFields(rest)
	if err != nil {
		return c, err
	}
	var problem string
	if c.credential, problem = parseCredential(fields.credential); problem != "" {
		return c, refuse(MalformedHeader, "%s", problem)
	}
	if c.signed, problem = parseSignedHeaders(fields.signed); problem != "" {
		return c, refuse(MalformedHeader, "%s", problem)
	}
	c.list, c.provided = fields.signed, fields.signature
	if c.signature, ok = parseSignature(c.provided); !ok {
		return c, refuse(MalformedHeader, "the signature must be 64 lower-case hexadecimal digits")
	}
	if c.time, ok = requestTime(r.Header); !ok {
		return c, refuse(MissingDate, "the request must have a valid x-amz-date or Date header")
	}
	c.stamp = c.time.Format(stampFormat)
	if c.stamp[:len(dateFormat)] != c.date {
		return c, refuse(MalformedHeader, "the credential's date must be the request's date")
	}
	if values := r.Header["X-Amz-Content-Sha256"]; len(values) == 0 {
		return c, refuse(MissingPayloadHash, "the request must have an x-amz-content-sha256 header")
	}
	c.payload, _ = r.header("x-amz-content-sha256")
	return c, nil
}

type fields struct{ credential, signed, signature string }

// parseFields reads Credential=…, SignedHeaders=… and Signature=… in any order. Only some clients write spaces after
// commas.
func parseFields(text string) (f fields, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.Trim(part, " \t"), "=")
		var field *string
		switch name {
		case "Credential":
			field = &f.credential
		case "SignedHeaders":
			field = &f.signed
		case "Signature":
			field = &f.signature
		default:
			return f, refuse(MalformedHeader, "the Authorization header must have Credential, SignedHeaders and Signature, separated by commas")
		}
		if value == "" || *field != "" {
			return f, refuse(MalformedHeader, "%s must occur once in the Authorization header and must have a value", name)
		}
		*field = value
	}
	if f.credential == "" || f.signed == "" || f.signature == "" {
		return f, refuse(MalformedHeader, "the Authorization header must have Credential, SignedHeaders and Signature")
	}
	return f, nil
}

func parseSignedHeaders(text string) (names []string, problem string) {
	if strings.Count(text, ";") >= maxSignedHeaders {
		return nil, "SignedHeaders lists too many headers"
	}
	names = strings.Split(text, ";")
	for i, name := range names {
		if !isHeaderName(name) {
			return nil, "SignedHeaders must list lower-case names of headers, separated by semicolons"
		}
		if i > 0 && names[i-1] >= name {
			return nil, "SignedHeaders must be in alphabetical order without duplicates"
		}
	}
	return names, ""
}

func isHeaderName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || 'A' <= c && c <= 'Z' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return name != ""
}

// requestTime returns the time in x-amz-date or, because old clients send only that, in Date.
func requestTime(h http.Header) (time.Time, bool) {
	value, present, ok := single(h, "X-Amz-Date")
	if present {
		t, valid := parseStamp(value)
		return t, ok && valid
	}
	value, _, ok = single(h, "Date")
	if t, valid := parseStamp(value); valid && ok {
		return t, true
	}
	t, err := http.ParseTime(value)
	return t.UTC(), ok && err == nil && t.Year() < 10000
}

// checkSigned requires that the host and all x-amz-* headers are signed. Otherwise a presigned URL could be used for
// something else, e.g. to copy another object.
func (r Request) checkSigned(c claim) error {
	var missing []string
	if !slices.Contains(c.signed, "host") {
		missing = append(missing, "host")
	}
	for name := range r.Header {
		if len(name) < 6 || !strings.EqualFold(name[:6], "x-amz-") {
			continue
		}
		if lower := strings.ToLower(name); !contains(c.signed, lower) {
			missing = append(missing, lower)
		}
	}
	if missing == nil {
		return nil
	}
	slices.Sort(missing)
	return &Error{Kind: UnsignedHeader, Message: "the Host header and all x-amz-* headers must be signed", Headers: missing}
}

func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}
