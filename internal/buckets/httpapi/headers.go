package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdfast/internal/buckets"
	"holdfast/internal/checksum"
	"holdfast/internal/web"
)

// stored lists the headers that are stored and returned with an object, besides Content-Type and user metadata. It
// includes S3's headers, because an update replaces all headers, so clients must be able to send them again.
var stored = []string{
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin",
	"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language",
	"Expires", "Surrogate-Key", "X-Amz-Website-Redirect-Location",
}

const (
	userHeader  = "M-" // as net/http spells it
	userPrefix  = "m-"
	defaultType = "application/octet-stream"

	maxHeaders = 4 << 10 // bytes each for user metadata and the other stored headers
	maxRoles   = 32      // UUIDs per object
	maxCopies  = 9       // as in the setting buckets.copies
)

const (
	durabilityHeader = "Durability-Level"
	rolesHeader      = "Object-Roles"
	propertiesHeader = "Object-Properties"
	checksumHeader   = "Object-Checksum"
	sharksHeader     = "Object-Sharks"
	createdHeader    = "Object-Created"
)

// newObject reads the object to store from the headers.
func (x *exchange) newObject() (o buckets.Object, err error) {
	h := x.in.Header
	o.Name, o.Creator = x.route.object, x.owner
	if o.ContentType = text(h.Get("Content-Type")); o.ContentType == "" {
		o.ContentType = defaultType
	}
	o.Headers = x.parsed.headers
	if roles := h.Values(rolesHeader); len(roles) > 0 {
		if o.Roles, err = parseRoles(strings.Split(strings.Join(roles, ","), ",")); err != nil {
			return o, err
		}
	}
	switch properties := h.Values(propertiesHeader); {
	case len(properties) > 1:
		return o, invalid(propertiesHeader + " occurs more than once")
	case len(properties) == 1:
		o.Extra, err = buckets.ParseExtra([]byte(properties[0]))
	}
	return o, err
}

// storedHeaders returns the headers to store, with names in lower case.
func storedHeaders(h http.Header) (map[string]string, error) {
	all := map[string]string{}
	for name, values := range h {
		if strings.HasPrefix(name, userHeader) || slices.Contains(stored, name) {
			all[strings.ToLower(name)] = text(strings.Join(values, ","))
		}
	}
	return all, checkHeaders(all)
}

// checkHeaders applies the rules for stored headers, from either a request's headers or a JSON body.
func checkHeaders(all map[string]string) error {
	user, other := 0, 0
	for name, value := range all {
		switch {
		case strings.HasPrefix(name, userPrefix) && buckets.IsHeaderName(name) && name == strings.ToLower(name):
			user += len(name) + len(value)
		case name == strings.ToLower(name) && slices.Contains(stored, http.CanonicalHeaderKey(name)):
			other += len(name) + len(value)
		default:
			return invalid(`headers must be m-* or one of ` + strings.ToLower(strings.Join(stored, ", ")) + `, in lower case`)
		}
		if strings.ContainsFunc(value, isControl) {
			return invalid("the value of a header has control characters")
		}
	}
	if user > maxHeaders || other > maxHeaders {
		return invalid("the m-* headers, or the other headers, have more than 4096 bytes")
	}
	return nil
}

// parseRoles parses UUIDs and removes duplicates.
func parseRoles(list []string) ([]string, error) {
	var roles []string
	for _, s := range list {
		id, err := buckets.ParseUUID(strings.TrimSpace(s))
		if err != nil {
			return nil, invalid("a role is not valid: it " + err.Error())
		}
		if !slices.Contains(roles, id) {
			roles = append(roles, id)
		}
	}
	if len(roles) > maxRoles {
		return nil, invalid("too many roles: at most " + strconv.Itoa(maxRoles) + " are allowed")
	}
	return roles, nil
}

var errDurability = web.Refuse(http.StatusBadRequest, "InvalidDurabilityLevel", durabilityHeader+" must be a number of copies from 1 to 9")

// durability returns the requested number of copies; 0 if none is requested.
func durability(h http.Header) (int, error) {
	values := h.Values(durabilityHeader)
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || len(values) > 1 || n < 1 || n > maxCopies {
		return 0, errDurability
	}
	return n, nil
}

// digests returns the digests that the body must match, as form fields for sigv4.
func digests(h http.Header) (fields map[string]string, err error) {
	fields = map[string]string{}
	if values := h.Values("Content-Md5"); len(values) > 0 {
		fields["content-md5"] = strings.Join(values, ",")
	}
	values := h.Values(checksumHeader)
	if len(values) == 0 {
		return fields, nil
	}
	name, value, _ := strings.Cut(values[0], " ")
	a, ok := checksum.ParseAlgorithm(name)
	if ok {
		_, ok = checksum.Parse(a, value)
	}
	if !ok || len(values) > 1 {
		return nil, invalid(checksumHeader + " must be one of CRC32, CRC32C, CRC64NVME, SHA1 and SHA256, a space, and the checksum in base64")
	}
	fields[a.Header()] = value
	return fields, nil
}

// text decodes a header that is not UTF-8 as Latin-1, as older HTTP versions do.
func text(s string) string {
	s = strings.TrimSpace(s)
	if utf8.ValidString(s) {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// isControl reports characters that may not occur in a header value.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// writeObject sets the headers that describe an object.
func (x *exchange) writeObject(o *buckets.Object) {
	h := x.out.Header()
	x.writeVersion(o)
	h.Set("Accept-Ranges", "bytes")
	if o.ContentType != "" {
		h.Set("Content-Type", o.ContentType)
	}
	for name, value := range o.Headers {
		h.Set(name, value)
	}
	h.Set(createdHeader, formatMoment(o.Created))
	if len(o.Sharks) > 0 {
		h.Set(durabilityHeader, strconv.Itoa(len(o.Sharks)))
		h.Set(sharksHeader, strings.Join(o.Sharks, ", "))
	}
	if len(o.Roles) > 0 {
		h.Set(rolesHeader, strings.Join(o.Roles, ", "))
	}
	if o.Checksum.Algorithm != "" {
		h.Set(checksumHeader, o.Checksum.Algorithm+" "+o.Checksum.Value)
	}
}

// writeVersion sets the entity tag, which is the object ID, and the time.
func (x *exchange) writeVersion(o *buckets.Object) {
	h := x.out.Header()
	h.Set("Etag", `"`+string(o.ID)+`"`)
	h.Set("Last-Modified", o.Modified.Time().Format(http.TimeFormat))
}
