package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// accessOperations declares the allow and deny lists, and the refused sign-ins from which an account can be allowed.
func (s *Accounts) accessOperations() []operate.Operation {
	const ids = "ACCOUNT is the account's ID, 32 hexadecimal digits. For an account that tokenserver refused list or another\n" +
		"list shows, the first 4 or more digits or its label, such as an address, are enough. The label stays."
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "access", Rows: "accounts", Limit: 1000, Resumes: true, Doc: "List the allow and deny lists", Title: "Allow and deny lists", Empty: "The lists are empty.",
			Group: "Manage who may sign in",
		}, s.listAccess),
		operate.NewChange(operate.About{
			Path: "access/allow", Doc: "Allow an account to sign in, even when new accounts are refused", More: ids, NewRow: true, Stays: true, Title: "Allow an account",
			Text:    "The account may sign in, even when new accounts are refused.",
			Example: "0123456789abcdef0123456789abcdef --note 'my sister'\n01234567\nanna@example.org\n",
		}, s.setAccess(tokenserver.Allowed)),
		operate.NewChange(operate.About{
			Path: "access/deny", Doc: "Deny an account: refuse its sign-ins and tokens, and keep its data", More: ids, NewRow: true, Stays: true, Title: "Deny an account", Danger: true,
			Text:    "The account's sign-ins and tokens are refused. Its data is kept.",
			Example: "0123456789abcdef0123456789abcdef --note 'left in May'\n",
		}, s.setAccess(tokenserver.Denied)),
		operate.NewChange(operate.About{
			Path: "access/remove", Doc: "Remove an account from the allow and deny lists", Button: "Remove from the lists", Stays: true,
		}, s.removeAccess),
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "refused", Rows: "accounts", Limit: 1000, Doc: "List refused sign-ins, the latest first", Title: "Refused sign-ins", Empty: "No sign-in was refused.",
			Text:  fmt.Sprintf("The accounts that were refused last. To list up to %d: holdfast tokenserver refused list --limit %d.", tokenserver.MaxRefused, tokenserver.MaxRefused),
			Group: "Show refused sign-ins", Offers: []string{"access/allow"},
		}, s.listRefused),
	}
}

// ruleOutput is an account on the allow or deny list. Label is "" without a label; Since is when the rule was last set.
type ruleOutput struct {
	Label   string    `json:"label" title:"Label" zero:"-" names:"account" example:"anna@example.org"`
	Account string    `json:"account" title:"Account" subject:"account" cursor:"" example:"0123456789abcdef0123456789abcdef"`
	Access  string    `json:"access" title:"Access" enum:"allow,deny"`
	Since   time.Time `json:"since" title:"Since"`
	Note    string    `json:"note" title:"Note" example:"my sister"`
}

// Offers shows only the button that removes the rule: to change it, the operator uses the forms below the list.
func (r ruleOutput) Offers(verb string) bool { return verb == "remove" }

// listAccess orders by account ID. After is the last account ID of the previous page.
func (s *Accounts) listAccess(ctx context.Context, in operate.Page[string]) (all []ruleOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return nil, err
	}
	rules, err := open.ListAccess(ctx, in.After, in.Limit)
	for _, r := range rules {
		all = append(all, ruleOutput{Account: r.FxAUID, Access: r.Access.String(), Since: time.UnixMilli(r.CreatedAt).UTC(), Note: r.Note})
	}
	if err != nil {
		return nil, err
	}
	return all, labelled(ctx, open, all, func(r *ruleOutput) (string, *string) { return r.Account, &r.Label })
}

// refusedOutput is an account that was refused because new accounts are not allowed. Attempts counts since First.
type refusedOutput struct {
	Label    string    `json:"label" title:"Label" zero:"-" example:"anna@example.org"`
	Account  string    `json:"account" subject:"account" example:"0123456789abcdef0123456789abcdef"`
	Shown    string    `json:"-" title:"Account"` // no link: the account is not known
	Attempts int64     `json:"attempts" title:"Attempts" least:"1"`
	First    time.Time `json:"firstAt" title:"First"`
	Last     time.Time `json:"lastAt" title:"Last"`
}

// listRefused returns the latest attempts first, at most tokenserver.MaxRefused.
func (s *Accounts) listRefused(ctx context.Context, in operate.Latest) (all []refusedOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return nil, err
	}
	refused, err := open.Refused(ctx, in.Limit)
	for _, r := range refused {
		all = append(all, refusedOutput{Account: r.FxAUID, Shown: r.FxAUID, Attempts: r.Attempts, First: moment(r.FirstAt), Last: moment(r.LastAt)})
	}
	if err != nil {
		return nil, err
	}
	return all, labelled(ctx, open, all, func(r *refusedOutput) (string, *string) { return r.Account, &r.Label })
}

// accountInput names an account that may be unknown, e.g. before its first sign-in.
type accountInput struct {
	Account string `subject:"account" doc:"account ID, 32 hexadecimal digits" example:"0123456789abcdef0123456789abcdef"`
}

// namedInput names an account as accountNamed accepts it.
type namedInput struct {
	Account string `subject:"account" doc:"account ID, 32 hexadecimal digits; of an account in a list, also its first 4 or more digits or its label" example:"0123456789abcdef0123456789abcdef"`
}

type accessInput struct {
	namedInput
	Note string `flag:"note" private:"" doc:"a note, shown in the list"`
}

// accessOutput is an account's rule after the change. Label is "" without a label. notice is a format for the account's
// ID with the label.
type accessOutput struct {
	Account string `json:"account" subject:"account"`
	Label   string `json:"label" example:"anna@example.org"`
	Access  string `json:"access" enum:"allow,deny,unlisted"`

	notice string
}

// Notice implements operate.Changed.
func (a accessOutput) Notice() string { return fmt.Sprintf(a.notice, withLabel(a.Account, a.Label)) }

// setAccess returns the function that allows or denies. It also deletes the account's refused sign-ins.
func (s *Accounts) setAccess(access tokenserver.Access) func(context.Context, accessInput) (accessOutput, error) {
	return func(ctx context.Context, in accessInput) (accessOutput, error) {
		notice := "account %s may sign in"
		if access == tokenserver.Denied {
			notice = "account %s may not sign in"
		}
		open, err := s.ready()
		if err != nil {
			return accessOutput{}, err
		}
		id, err := accountNamed(ctx, open, in.Account)
		if err != nil {
			return accessOutput{}, err
		}
		return changeAccess(ctx, open, id, tokenserver.Rule{Access: access, Note: in.Note}, notice)
	}
}

// removeAccess accepts any account ID that the lists may contain, not only the form of Mozilla's accounts server.
// Removing an account that is not listed succeeds.
func (s *Accounts) removeAccess(ctx context.Context, in namedInput) (out accessOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return out, err
	}
	id, err := accountNamed(ctx, open, in.Account)
	if errors.Is(err, errUnnamed) {
		id, err = in.Account, nil
	}
	if err != nil {
		return out, err
	}
	return changeAccess(ctx, open, id, tokenserver.Rule{}, "removed account %s from the lists")
}

// changeAccess sets an account's rule; an Unlisted rule removes it. id may contain the domain.
func changeAccess(ctx context.Context, open *tokenserver.Service, id string, rule tokenserver.Rule, notice string) (out accessOutput, err error) {
	account, err := open.ParseAccount(id)
	if err != nil {
		return out, err
	}
	rule.FxAUID = account.FxAUID
	out = accessOutput{account.FxAUID, "", rule.Access.String(), notice}
	if err := open.SetAccess(ctx, account, rule); err != nil {
		return out, err
	}
	labels, err := open.LabelsOf(ctx, []string{out.Account})
	out.Label = labels[out.Account].Text
	return out, err
}
