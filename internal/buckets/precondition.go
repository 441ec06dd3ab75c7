package buckets

import (
	"slices"
	"strings"

	"holdfast/internal/errcode"
)

// Condition is the expected state of an object. Zero fields are not checked.
type Condition struct {
	Match           Tags
	NoneMatch       Tags
	ModifiedSince   Moment // the object must be newer
	UnmodifiedSince Moment // the object must not be newer
}

// Tags are unquoted S3 entity tags or object IDs.
type Tags struct {
	Any  bool // "*": any existing object
	Tags []string
}

// maxTags limits the comparisons per request.
const maxTags = 100

// ParseTags parses the values of If-Match or If-None-Match. Clients may omit the quotes. It returns the zero value only
// if there are no values: an empty or malformed header is ErrTags, because a write that ignored it would be
// unconditional. RFC 9110 (5.6.1.2) allows empty list members, and (13.1.1) does not allow * in a list.
func ParseTags(values []string) (t Tags, err error) {
	for _, v := range values {
		for v != "" {
			var tag string
			tag, v = cutTag(v)
			switch {
			case tag == "":
				continue
			case t.Any, tag == "*" && len(t.Tags) > 0:
				return Tags{}, ErrTags
			case tag == "*":
				t.Any = true
				continue
			}
			tag, ok := unquoted(tag)
			if !ok {
				return Tags{}, ErrTags
			}
			t.Tags = append(t.Tags, tag)
		}
	}
	switch {
	case len(t.Tags) > maxTags:
		return Tags{}, ErrTooManyTags
	case len(values) > 0 && !t.IsSet():
		return Tags{}, ErrTags
	}
	return t, nil
}

// cutTag returns the first member of a list and the rest. A comma inside quotes does not separate members.
func cutTag(list string) (tag, rest string) {
	quoted := false
	for i := range len(list) {
		switch {
		case list[i] == '"':
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return strings.Trim(list[:i], " \t"), list[i+1:]
		}
	}
	return strings.Trim(list, " \t"), ""
}

// unquoted returns the text of an entity tag: "text", W/"text" or text. The characters are those of RFC 9110 (8.8.3).
func unquoted(tag string) (text string, ok bool) {
	text = strings.TrimPrefix(tag, "W/")
	if n := len(text); n >= 2 && text[0] == '"' && text[n-1] == '"' {
		text, ok = text[1:n-1], true
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c == '"' || c == 0x7f {
			return "", false
		}
	}
	return text, ok || text != ""
}

// String returns the canonical header value. Policies compare it with conditions on s3:if-match.
func (t *Tags) String() string {
	if t.Any {
		return "*"
	}
	all := make([]string, len(t.Tags))
	for i, tag := range t.Tags {
		all[i] = `"` + tag + `"`
	}
	return strings.Join(all, ", ")
}

func (t *Tags) IsSet() bool { return t.Any || len(t.Tags) > 0 }

// match reports whether a tag matches the object.
func (t *Tags) match(o *Object) bool {
	return t.Any || slices.Contains(t.Tags, o.EntityTag()) || slices.Contains(t.Tags, string(o.ID))
}

func (c *Condition) IsSet() bool {
	return c.Match.IsSet() || c.NoneMatch.IsSet() || c.ModifiedSince != 0 || c.UnmodifiedSince != 0
}

// CheckWrite checks the condition of a write. o is nil if the object does not exist. Dates are compared in seconds. As
// in Manta, a conditional write to a missing object returns ErrNoObject, except that If-None-Match: * succeeds and
// If-Match: * returns ErrPrecondition.
func (c *Condition) CheckWrite(o *Object) error {
	if o == nil {
		switch {
		case c.Match.Any:
			return ErrPrecondition
		case c.NoneMatch.Any || !c.IsSet():
			return nil
		}
		return ErrNoObject
	}
	if err := c.CheckRead(o); err != nil {
		return ErrPrecondition
	}
	return nil
}

// CheckRead returns ErrPrecondition or ErrNotModified. As in RFC 9110, entity tags take precedence over dates.
func (c *Condition) CheckRead(o *Object) error {
	switch {
	case c.Match.IsSet():
		if !c.Match.match(o) {
			return ErrPrecondition
		}
	case c.UnmodifiedSince != 0 && o.Modified.Seconds() > c.UnmodifiedSince.Seconds():
		return ErrPrecondition
	}
	switch {
	case c.NoneMatch.IsSet():
		if c.NoneMatch.match(o) {
			return ErrNotModified
		}
	case c.ModifiedSince != 0 && o.Modified.Seconds() <= c.ModifiedSince.Seconds():
		return ErrNotModified
	}
	return nil
}

var (
	ErrPrecondition = errcode.New(errcode.Precondition, "a precondition of the request does not hold")
	ErrTags         = errcode.New(errcode.Invalid, `an entity tag is missing or malformed: expected "tag", several tags with commas, or *`)
	ErrTooManyTags  = errcode.New(errcode.Invalid, "too many entity tags: at most 100 are allowed")
	ErrNotModified  = errcode.New(errcode.Precondition, "the object has not been modified")
)
