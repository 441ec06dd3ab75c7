package extstorage

import (
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// Precondition is the required record state. The zero value allows any state.
type Precondition struct {
	Revision  Optional[Revision] // ifRevision; 0 means that the record must not exist
	Match     Tags
	NoneMatch Tags
}

// Optional is a value that clients may omit; JSON null counts as omitted.
type Optional[T any] = optional.Of[T]

// Some returns a value that is set.
func Some[T any](v T) Optional[T] { return optional.Some(v) }

// IsSet reports whether the write is conditional.
func (g *Precondition) IsSet() bool { return g.Revision.Set || g.Match.Set || g.NoneMatch.Set }

// Check compares the precondition with a record's revision and last change, which are 0 if the record is absent or
// expired. Headers come first, as RFC 9110 requires, and If-Match before If-None-Match.
func (g *Precondition) Check(revision Revision, seq Seq) error {
	switch {
	case g.Match.Set && !g.Match.has(seq), g.NoneMatch.Set && g.NoneMatch.has(seq):
		return &MismatchError{Current: revision, Header: true}
	case g.Revision.Set && g.Revision.Value != revision:
		return &MismatchError{Current: revision}
	}
	return nil
}

// CheckDelete is like Check, but for deletes. A missing record matches only an unset precondition: otherwise the
// client expected to delete something.
func (g *Precondition) CheckDelete(revision Revision, seq Seq) error {
	if err := g.Check(revision, seq); err != nil {
		return err
	}
	if revision == 0 && g.IsSet() {
		return &MismatchError{}
	}
	return nil
}

// MismatchError means that the record does not match the Precondition.
type MismatchError struct {
	Current Revision // revision; 0 without a record
	Header  bool     // from a header (status 412) rather than the body (status 409)
}

func (e *MismatchError) Error() string {
	if e.Current == 0 {
		return "revision mismatch: the record does not exist"
	}
	return "revision mismatch: the current revision is " + strconv.FormatInt(int64(e.Current), 10)
}

// ErrorCode returns errcode.Precondition or errcode.Conflict, by Header.
func (e *MismatchError) ErrorCode() errcode.Code {
	if e.Header {
		return errcode.Precondition
	}
	return errcode.Conflict
}

// ETag returns the entity tag, such as `"17"`. Change numbers, unlike revisions, are never reused, so a tag never
// matches a later record with the same key.
func (s Seq) ETag() string { return `"` + strconv.FormatInt(int64(s), 10) + `"` }

// Tags are the entity tags of If-Match or If-None-Match.
type Tags struct {
	Set  bool // the header was sent
	Any  bool // the header is *
	Seqs []Seq
}

// has reports whether a tag matches; "*" matches any record.
func (t *Tags) has(seq Seq) bool { return seq != 0 && (t.Any || slices.Contains(t.Seqs, seq)) }

// ParseIfMatch parses If-Match. It uses strong comparison, so weak tags match nothing.
func ParseIfMatch(header string) (Tags, error) { return parseTags(header, false) }

// ParseIfNoneMatch parses If-None-Match. It treats W/"17" like "17".
func ParseIfNoneMatch(header string) (Tags, error) { return parseTags(header, true) }

var errTags = refuse(`must be * or a list of quoted entity tags, e.g. "17"`)

// parseTags parses a list (RFC 9110, 13.1.1). Tags that this server never issued match nothing.
func parseTags(s string, weak bool) (Tags, error) {
	t := Tags{Set: true}
	if strings.Trim(s, " \t") == "*" {
		t.Any = true
		return t, nil
	}
	for {
		// Empty list elements are allowed.
		s = strings.TrimLeft(s, " \t,")
		tag, isWeak := strings.CutPrefix(s, "W/")
		if tag == "" || tag[0] != '"' {
			return Tags{}, errTags
		}
		opaque, rest, ok := strings.Cut(tag[1:], `"`)
		if !ok || strings.ContainsFunc(opaque, func(r rune) bool { return r < '!' || r == 0x7f }) {
			return Tags{}, errTags
		}
		seq, err := strconv.ParseInt(opaque, 10, 64)
		if err == nil && Seq(seq).ETag() == `"`+opaque+`"` && (weak || !isWeak) {
			t.Seqs = append(t.Seqs, Seq(seq))
		}
		rest = strings.TrimLeft(rest, " \t")
		switch {
		case rest == "":
			return t, nil
		case rest[0] != ',':
			return Tags{}, errTags
		}
		if s = strings.TrimLeft(rest, " \t,"); s == "" {
			return t, nil
		}
	}
}
