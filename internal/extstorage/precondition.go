package extstorage

import (
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

// Precondition is the expected state of a request's record. The zero value expects
// nothing.
type Precondition struct {
	Revision  Optional[Revision] // ifRevision; 0: the record must not exist
	Match     Tags               // If-Match
	NoneMatch Tags               // If-None-Match
}

// Optional is a value that a client may leave out; JSON null counts as left out.
type Optional[T any] = optional.Of[T]

// Some returns an Optional that is set.
func Some[T any](v T) Optional[T] { return optional.Some(v) }

// IsSet reports whether the precondition expects anything.
func (g *Precondition) IsSet() bool { return g.Revision.Set || g.Match.Set || g.NoneMatch.Set }

// Check compares the precondition with a record, by its revision and the number of the
// change that wrote it; both are 0 if the record is absent or expired. The error is a
// *MismatchError. Headers come first, as RFC 9110 requires, and If-Match before
// If-None-Match.
func (g *Precondition) Check(revision Revision, seq Seq) error {
	switch {
	case g.Match.Set && !g.Match.has(seq), g.NoneMatch.Set && g.NoneMatch.has(seq):
		return &MismatchError{Current: revision, Header: true}
	case g.Revision.Set && g.Revision.Value != revision:
		return &MismatchError{Current: revision}
	}
	return nil
}

// CheckDelete is Check for a delete. Without a precondition, a missing record is not
// an error. With one, it is, even if the precondition expects no record: the client
// expected to delete something.
func (g *Precondition) CheckDelete(revision Revision, seq Seq) error {
	if err := g.Check(revision, seq); err != nil {
		return err
	}
	if revision == 0 && g.IsSet() {
		return &MismatchError{}
	}
	return nil
}

// MismatchError means that a precondition does not hold.
type MismatchError struct {
	Current Revision // of the record; 0 if it does not exist
	Header  bool     // the precondition was a header (412), not in the body (409)
}

func (e *MismatchError) Error() string {
	if e.Current == 0 {
		return "revision mismatch: the record does not exist"
	}
	return "revision mismatch: the current revision is " + strconv.FormatInt(int64(e.Current), 10)
}

// ErrorCode implements errcode.Coder.
func (e *MismatchError) ErrorCode() errcode.Code {
	if e.Header {
		return errcode.Precondition
	}
	return errcode.Conflict
}

// ETag returns the entity tag of the record that the change wrote, such as `"17"`. The
// number belongs to the install, not to the record, whose revisions start at 1 again
// after it was deleted or has expired. So a tag never matches a later record with the
// same key.
func (s Seq) ETag() string { return `"` + strconv.FormatInt(int64(s), 10) + `"` }

// Tags are the entity tags of If-Match or If-None-Match. Well-formed tags that are not
// ours are not stored, since they match no record.
type Tags struct {
	Set  bool // the header is present
	Any  bool // the header is *
	Seqs []Seq
}

// has reports whether the tags include the record of a change; 0 means no record.
func (t *Tags) has(seq Seq) bool { return seq != 0 && (t.Any || slices.Contains(t.Seqs, seq)) }

// ParseIfMatch parses an If-Match header. The comparison is strong, so a weak tag
// matches nothing. Join several headers with commas.
func ParseIfMatch(header string) (Tags, error) { return parseTags(header, false) }

// ParseIfNoneMatch parses an If-None-Match header, in which W/"17" equals "17".
func ParseIfNoneMatch(header string) (Tags, error) { return parseTags(header, true) }

var errTags = refuse(`must be * or a list of quoted entity tags such as "17"`)

func parseTags(s string, weak bool) (Tags, error) {
	t := Tags{Set: true}
	if strings.Trim(s, " \t") == "*" {
		t.Any = true
		return t, nil
	}
	for {
		// Empty elements of a list are allowed.
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
