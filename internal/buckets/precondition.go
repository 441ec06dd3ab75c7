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
	ModifiedSince   Moment
	UnmodifiedSince Moment
}

// Tags are unquoted S3 entity tags or object IDs.
type Tags struct {
	Any  bool
	Tags []string
}

const maxTags = 100

// ParseTags parses If-Match or If-None-Match, quoted or not.
func ParseTags(values []string) (t Tags, err error) {
	for _, v := range values {
		for tag := range strings.SplitSeq(v, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" {
				t.Any = true
				continue
			}
			tag = strings.TrimPrefix(tag, "W/")
			if tag = strings.Trim(tag, `"`); tag != "" {
				t.Tags = append(t.Tags, tag)
			}
		}
	}
	if len(t.Tags) > maxTags {
		return t, ErrTooManyTags
	}
	return t, nil
}

func (t *Tags) IsSet() bool { return t.Any || len(t.Tags) > 0 }

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
	ErrTooManyTags  = errcode.New(errcode.Invalid, "too many entity tags: at most 100 are allowed")
	ErrNotModified  = errcode.New(errcode.Precondition, "the object has not been modified")
)
