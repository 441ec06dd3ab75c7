package tokenserver

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// MaxLabel is the maximum label length in characters.
const MaxLabel = 100

// Labels stores a label for each account, e.g. the user's name.
type Labels interface {
	// SetLabel sets an account's label, or removes it if the text is "", and reports whether it did. A label from a
	// profile is never "". It is set only if the account has an unreplaced row or a recorded refusal, and no label from an
	// operator. Of l, FxAUID does not count: the label is for a. SetLabel returns the error of Label.Check.
	SetLabel(ctx context.Context, a Account, l Label) (set bool, err error)

	// LabelsOf returns labels by account ID, in one query, so the caller limits the number of IDs. Accounts without a
	// label are missing in the map, which is never nil.
	LabelsOf(ctx context.Context, fxaUIDs []string) (map[string]Label, error)

	// FindLabels returns labels that begin with a prefix, ignoring case, ordered by Label.Key and account. It returns
	// errcode.Invalid if no label can match.
	FindLabels(ctx context.Context, f FindLabels) ([]Labelled, error)
}

// FindLabels selects a page of labels.
type FindLabels struct {
	Prefix string
	Domain string // of the accounts' rows
	After  Label  // FxAUID and Text; zero means from the start
	Limit  int
}

// Label is an account's label.
type Label struct {
	FxAUID      string
	Text        string
	FromProfile bool  // from the accounts server, not the operator
	SetAt       int64 // ms since 1970
}

// Labelled is a label with its account's storage user.
type Labelled struct {
	Label
	User User // UID is 0 if there is no unreplaced row
}

// Key returns the text that searches compare.
func (l *Label) Key() string { return strings.ToLower(l.Text) }

// Check returns errcode.Invalid for a label that people could not read or tell apart.
func (l *Label) Check() error {
	if !l.IsValid() {
		return errcode.Newf(errcode.Invalid, "a label must be at most %d printable characters, without spaces at its ends", MaxLabel)
	}
	return nil
}

// IsValid reports whether Check succeeds.
func (l *Label) IsValid() bool {
	return (l.Text != "" || !l.FromProfile) && isLabelText(l.Text) && strings.TrimSpace(l.Text) == l.Text
}

// isLabelText rejects invisible and direction-changing characters, because labels must not look alike.
func isLabelText(s string) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= MaxLabel && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Range returns the label before the search range and the key after it.
func (f *FindLabels) Range() (first Label, end string, err error) {
	if f.Prefix == "" || !isLabelText(f.Prefix) {
		return first, "", errcode.Newf(errcode.Invalid, "expected 1 to %d printable characters, the beginning of a label", MaxLabel)
	}
	first = Label{Text: strings.ToLower(f.Prefix)}
	if f.After.Key() >= first.Text {
		first = f.After
	}
	return first, strings.ToLower(f.Prefix) + string(unicode.MaxRune), nil
}
