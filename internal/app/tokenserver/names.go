package tokenserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// leastDigits is how many digits of an account ID an operator must give. Lists in the console show eight.
const leastDigits = 4

// maxNamed is how many accounts an error about an ambiguous name lists.
const maxNamed = 10

var (
	errAccountID = &operate.InputError{Input: "account", Reason: "expected 32 hexadecimal digits (0-9, a-f)"}
	errUnnamed   = &operate.InputError{Input: "account", Reason: fmt.Sprintf("no account here begins with this ID or has this label: expected 32 hexadecimal digits (0-9, a-f), "+
		"the first %d or more of an ID in tokenserver refused list, or a label such as an address", leastDigits)}
)

// accountNamed returns the ID of the account that an operator names: an ID, also followed by the accounts server's domain as in
// the database; the first digits of the ID of an account that is refused, listed, labelled or has storage, also with
// the "…" of the console; or a label, in any case. It returns a *operate.InputError if no account or several match.
// Only whole IDs may be unknown.
func accountNamed(ctx context.Context, open *tokenserver.Service, name string) (string, error) {
	if id, _, _ := strings.Cut(name, "@"); tokenserver.IsAccountID(id) {
		return name, nil
	}
	var ids []string
	digits := strings.ToLower(strings.TrimSuffix(name, "…"))
	if _, _, err := tokenserver.PrefixRange(digits); err == nil && len(digits) >= leastDigits {
		if ids, err = open.FindAccounts(ctx, digits, maxNamed+1); err != nil {
			return "", err
		}
	}
	wanted := tokenserver.Label{Text: strings.TrimSpace(name)}
	if wanted.Text != "" && wanted.IsValid() {
		// The whole label precedes longer ones that begin with it.
		labels, err := open.FindLabels(ctx, wanted.Text, tokenserver.Label{}, maxNamed+1)
		if err != nil {
			return "", err
		}
		for _, l := range labels {
			if l.Key() == wanted.Key() && !slices.Contains(ids, l.FxAUID) {
				ids = append(ids, l.FxAUID)
			}
		}
	}
	switch len(ids) {
	case 0:
		return "", errUnnamed
	case 1:
		return ids[0], nil
	}
	more := ""
	if len(ids) > maxNamed {
		ids, more = ids[:maxNamed], " and others"
	}
	// Without labels, because errors are logged.
	return "", &operate.InputError{Input: "account", Reason: "means several accounts: give more digits of one of " + strings.Join(ids, ", ") + more}
}

// withLabel returns an ID for messages, followed by the label if there is one.
func withLabel(id, label string) string {
	if label == "" {
		return id
	}
	return id + " (" + label + ")"
}
