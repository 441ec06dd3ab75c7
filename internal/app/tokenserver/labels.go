package tokenserver

import (
	"context"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// labelOperation declares accounts/label. Labels are private: they are omitted from the change log.
func (s *Accounts) labelOperation() operate.Operation {
	return operate.NewChange(operate.About{
		Path: "accounts/label", Doc: "Give an account a label, e.g. a name or an address", Title: "Label", Button: "Set label", Stays: true,
		Text: "Lists show the label before the account ID. An empty label removes it.",
		More: "Lists and the console show the label before the account's ID, and accounts list --label finds it. Without LABEL,\n" +
			"the label is removed. It is deleted with the account. With tokenserver.label_from_profile, an account without a\n" +
			"label gets its address as the label, if the accounts server provides it.",
		Example: "0123456789abcdef0123456789abcdef anna@example.org\n",
	}, s.setLabel)
}

// labelInput's Label is trimmed before it is checked and stored.
type labelInput struct {
	namedInput
	Label string `flag:"label" arg:"LABEL" private:"" doc:"name or address, up to 100 characters; empty removes it" example:"anna@example.org"`
}

func (in labelInput) Check() error {
	l := tokenserver.Label{Text: strings.TrimSpace(in.Label)}
	if err := l.Check(); err != nil {
		return &operate.InputError{Input: "label", Reason: errcode.Message(err)}
	}
	return nil
}

type labelOutput struct {
	Account string `json:"account" subject:"account"`
	Label   string `json:"label" example:"anna@example.org"`
}

// Notice says removed for an empty label.
func (l labelOutput) Notice() string {
	if l.Label == "" {
		return "removed the label from account " + l.Account
	}
	return "account " + l.Account + " is labelled " + l.Label
}

// setLabel stores an operator's label, which a label from the profile never replaces.
func (s *Accounts) setLabel(ctx context.Context, in labelInput) (out labelOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return out, err
	}
	id, err := accountNamed(ctx, open, in.Account)
	if err != nil {
		return out, err
	}
	account, err := open.ParseAccount(id)
	if err != nil {
		return out, err
	}
	out = labelOutput{account.FxAUID, strings.TrimSpace(in.Label)}
	return out, open.SetLabel(ctx, account, out.Label)
}

// labelFrom returns accountOutput.LabelFrom, "" for an account without a label.
func labelFrom(l tokenserver.Label) string {
	switch {
	case l.FromProfile:
		return "profile"
	case l.Text != "":
		return "operator"
	}
	return ""
}

// labelled sets the labels in rows, with one query. of returns a row's account ID, and the field for the label, which
// becomes "" without a label.
func labelled[T any](ctx context.Context, open *tokenserver.Service, rows []T, of func(*T) (account string, label *string)) error {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i], _ = of(&rows[i])
	}
	labels, err := open.LabelsOf(ctx, ids)
	if err != nil {
		return err
	}
	for i := range rows {
		_, label := of(&rows[i])
		*label = labels[ids[i]].Text
	}
	return nil
}

// labelledAccounts lists the accounts whose label begins with in.Label, ordered by label. A position is the account ID
// and the label, separated by a space. o only fills in columns.
func (s *Accounts) labelledAccounts(ctx context.Context, o order, in listInput) (all []rowOutput, err error) {
	after := tokenserver.Label{}
	after.FxAUID, after.Text, _ = strings.Cut(in.After, " ")
	// Labels without storage are skipped, so one query may not fill the page.
	for len(all) < in.Limit {
		labelled, err := s.opened.FindLabels(ctx, in.Label, after, in.Limit)
		if errcode.Is(err, errcode.Invalid) {
			err = &operate.InputError{Input: "label", Reason: errcode.Message(err)}
		}
		if err != nil {
			return nil, err
		}
		var users []tokenserver.User
		var labels []tokenserver.Label
		for _, l := range labelled {
			after = l.Label
			if l.User.UID != 0 && len(all)+len(users) < in.Limit { // a listed account may lack storage
				users, labels = append(users, l.User), append(labels, l.Label)
			}
		}
		rows, err := s.withUsage(ctx, users)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			out := rows[i].output(o)
			out.Label, out.Position = labels[i].Text, labels[i].FxAUID+" "+labels[i].Text
			all = append(all, out)
		}
		if len(labelled) < in.Limit {
			break
		}
	}
	return all, nil
}
