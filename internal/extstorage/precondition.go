package extstorage

import (
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/fault"
	"holdfast/internal/optional"
)

// Precondition is what a request wants to be so of the record that it addresses. The
// zero precondition wants nothing.
type Precondition struct {
	Revision  Optional[Revision] // ifRevision; 0: there must be no record
	Match     Tags               // If-Match
	NoneMatch Tags               // If-None-Match
}

// Optional is a value that a client may leave out; JSON null counts as left out.
type Optional[T any] = optional.Of[T]

// Some is a value that is there.
func Some[T any](v T) Optional[T] { return optional.Some(v) }

// IsSet reports whether the precondition wants anything.
func (g *Precondition) IsSet() bool { return g.Revision.Set || g.Match.Set || g.NoneMatch.Set }

// Check holds the precondition against the record that there is, by its revision and
// the number of the change that wrote it; both are 0 when there is none, or
// when it has expired. The error is a *MismatchError. The headers are looked at
// first, as RFC 9110 has it, and If-Match before If-None-Match.
func (g *Precondition) Check(revision Revision, seq Seq) error {
	switch {
	case g.Match.Set && !g.Match.has(seq), g.NoneMatch.Set && g.NoneMatch.has(seq):
		return &MismatchError{Current: revision, Header: true}
	case g.Revision.Set && g.Revision.Value != revision:
		return &MismatchError{Current: revision}
	}
	return nil
}

// CheckDelete is Check for a request that deletes. Without a precondition it does not
// matter whether the record is there. With one the client has told that it
// knows what it deletes, and is told when there is nothing, even if that is
// what the precondition wants.
func (g *Precondition) CheckDelete(revision Revision, seq Seq) error {
	if err := g.Check(revision, seq); err != nil {
		return err
	}
	if revision == 0 && g.IsSet() {
		return &MismatchError{}
	}
	return nil
}

// MismatchError is a precondition that does not hold.
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

// FaultCode implements fault.Coder.
func (e *MismatchError) FaultCode() fault.Code {
	if e.Header {
		return fault.Precondition
	}
	return fault.Conflict
}

// ETag is the entity tag of a record that the change wrote, such as `"17"`. The
// number is of the install and not of the record, whose revisions begin at 1
// again after it was deleted or has expired: a tag never meets another life of
// its key.
func (s Seq) ETag() string { return `"` + strconv.FormatInt(int64(s), 10) + `"` }

// Tags are what If-Match or If-None-Match lists. Of tags that are well formed
// but not ours nothing is kept: they match no record.
type Tags struct {
	Set  bool // the header was there
	Any  bool // it was *
	Seqs []Seq
}

// has reports whether the record of a change is among the tags; 0 is no record.
func (t *Tags) has(seq Seq) bool { return seq != 0 && (t.Any || slices.Contains(t.Seqs, seq)) }

// ParseIfMatch reads an If-Match header. It compares strongly, so a weak tag
// matches nothing. More than one header of the name are one, with commas.
func ParseIfMatch(header string) (Tags, error) { return parseTags(header, false) }

// ParseIfNoneMatch reads an If-None-Match header, for which W/"17" is "17".
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
