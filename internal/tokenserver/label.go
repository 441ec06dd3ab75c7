package tokenserver

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// MaxLabel is the maximum length of a label in characters.
const MaxLabel = 100

// Labels stores the names that people have for accounts.
type Labels interface {
	// SetLabel sets the label of an account, or removes it if the text is "", and reports whether it did. A label from
	// a profile is set only for an account with a row that is not replaced, never replaces a label of the operator, and
	// is not "". The error is errcode.Invalid if Label.Check does.
	SetLabel(ctx context.Context, a Account, l Label) (set bool, err error)

	// LabelsOf returns the labels of accounts by their IDs, in one query.
	LabelsOf(ctx context.Context, fxaUIDs []string) (map[string]Label, error)

	// FindLabels returns at most limit labels that begin with a text, in any case, ordered by Label.Key and then by
	// account: those after a label, or the first ones. Each has the newest row of its account in this domain that is
	// not replaced, if there is one. The error is errcode.Invalid if the text cannot begin a label.
	FindLabels(ctx context.Context, f FindLabels) ([]Labelled, error)
}

// FindLabels says which labels to return.
type FindLabels struct {
	Prefix string
	Domain string // the setting fxa_email_domain
	After  Label  // FxAUID and Text; the zero value is the beginning
	Limit  int
}

// Label is a row of the table account_labels.
type Label struct {
	FxAUID      string
	Text        string
	FromProfile bool  // the accounts server gave it, and not the operator
	SetAt       int64 // ms since 1970
}

// Labelled is a label with the storage user of its account.
type Labelled struct {
	Label
	User User // UID 0: the account has no row that is not replaced
}

// Key returns the text by which labels are found and ordered.
func (l *Label) Key() string { return strings.ToLower(l.Text) }

// Check returns errcode.Invalid for a text that is no label.
func (l *Label) Check() error {
	if !l.IsValid() {
		return errcode.Newf(errcode.Invalid, "a label must be at most %d printable characters, without spaces at its ends", MaxLabel)
	}
	return nil
}

// IsValid reports whether the text is a label.
func (l *Label) IsValid() bool {
	return (l.Text != "" || !l.FromProfile) && isLabelText(l.Text) && strings.TrimSpace(l.Text) == l.Text
}

// isLabelText reports whether a label may contain a text. Characters that change the direction of text, and others that
// nobody sees, are no part of a label: one label must not look like another.
func isLabelText(s string) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= MaxLabel && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Range returns the bounds of the search: the returned labels are after the first one, and their keys are less than end.
func (f *FindLabels) Range() (first Label, end string, err error) {
	if f.Prefix == "" || !isLabelText(f.Prefix) {
		return first, "", errcode.Newf(errcode.Invalid, "expected 1 to %d printable characters, with which a label begins", MaxLabel)
	}
	first = Label{Text: strings.ToLower(f.Prefix)}
	if f.After.Key() >= first.Text {
		first = f.After
	}
	return first, strings.ToLower(f.Prefix) + string(unicode.MaxRune), nil // no label has the last character of Unicode
}
