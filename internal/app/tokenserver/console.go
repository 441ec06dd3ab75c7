package tokenserver

import (
	"context"
	"fmt"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

// consoleRows is how many rows a page of the console has.
const consoleRows = 100

// console returns the pages of the service.
func (s *Accounts) console() *service.Console {
	return &service.Console{Title: "Firefox Sync", Pages: []service.Page{
		{Path: "accounts", Title: "Accounts", Listed: true, Show: s.showAccounts, Actions: []service.Action{{Name: "find", Reads: true, Run: s.findAccount}}},
		{Path: "account", Title: "Account", Show: s.showAccount, Actions: []service.Action{
			{Name: "quota", Logged: []string{"account", "quota"}, Run: s.changeQuota},
			{Name: "delete", Logged: []string{"account"}, Run: s.deleteAccount},
		}},
		{Path: "refused", Title: "Refused sign-ins", Listed: true, Show: s.showRefused, Actions: []service.Action{s.accessAction("allow", tokenserver.Allowed)}},
		{Path: "access", Title: "Allow and deny lists", Listed: true, Show: s.showAccess, Actions: []service.Action{
			s.accessAction("allow", tokenserver.Allowed), s.accessAction("deny", tokenserver.Denied), s.accessAction("remove", tokenserver.Unlisted),
		}},
	}}
}

func (s *Accounts) showRefused(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	refused, err := s.opened.Refused(ctx, consoleRows)
	if err != nil {
		return nil, err
	}
	return refusedView(refused), nil
}

// refusedView shows the accounts that were refused last.
func refusedView(refused []tokenserver.Refused) *service.View {
	t := &service.Table{
		Columns: []service.Column{{Title: "Account"}, {Title: "Attempts", Number: true}, {Title: "First"}, {Title: "Last"}, {Title: "Action"}},
		Empty:   "No sign-in was refused.",
	}
	for _, r := range refused {
		t.Rows = append(t.Rows, []service.Cell{
			service.TextCell(r.FxAUID), service.TextCell(strconv.FormatInt(r.Attempts, 10)),
			service.MillisCell(r.FirstAt), service.MillisCell(r.LastAt),
			{Forms: []service.Form{{Action: "allow", Keep: map[string]string{"account": r.FxAUID}, Submit: "Allow", Label: "Allow account " + r.FxAUID}}},
		})
	}
	view := &service.View{Blocks: []service.Block{t}}
	if len(refused) == consoleRows {
		view.Blocks = append(view.Blocks, &service.Text{Body: fmt.Sprintf("These are the %d accounts that were refused last. To list up to %d: holdfast sync user list --refused.", consoleRows, tokenserver.MaxRefused)})
	}
	return view
}

func (s *Accounts) showAccess(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	rules, err := s.opened.ListAccess(ctx, r.Value("after"), consoleRows)
	if err != nil {
		return nil, err
	}
	t := &service.Table{
		Columns: []service.Column{{Title: "Account"}, {Title: "Access"}, {Title: "Since"}, {Title: "Note"}, {Title: "Action"}},
		Empty:   "The lists are empty.",
	}
	for _, rule := range rules {
		t.Rows = append(t.Rows, []service.Cell{
			accountCell(rule.FxAUID), service.TextCell(rule.Access.String()), service.MillisCell(rule.CreatedAt), service.TextCell(rule.Note),
			{Forms: []service.Form{{Action: "remove", Keep: map[string]string{"account": rule.FxAUID}, Submit: "Remove", Label: "Remove account " + rule.FxAUID + " from the lists"}}},
		})
	}
	if len(rules) == consoleRows {
		t.Next = rules[len(rules)-1].FxAUID
	}
	fields := []service.Field{
		{Name: "account", Label: "Account", Help: "The ID of the account: 32 hexadecimal digits."},
		{Name: "note", Label: "Note", Optional: true},
	}
	return &service.View{Blocks: []service.Block{
		t,
		&service.Form{Title: "Allow an account", Text: "The account may sign in, even when new accounts are refused.", Action: "allow", Submit: "Allow", Fields: fields},
		&service.Form{Title: "Deny an account", Text: "Sign-ins and tokens of the account are refused. Its data is kept.", Action: "deny", Submit: "Deny", Danger: true, Fields: fields},
	}}, nil
}

// accessAction returns an action that puts an account on a list, or removes it.
func (s *Accounts) accessAction(name string, access tokenserver.Access) service.Action {
	return service.Action{Name: name, Logged: []string{"account"}, Run: func(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
		id := r.Value("account")
		if access != tokenserver.Unlisted && !tokenserver.IsAccountID(id) {
			return o, invalidAccount(id)
		}
		acc, err := s.opened.ParseAccount(id)
		if err != nil {
			return o, err
		}
		rule := tokenserver.Rule{FxAUID: acc.FxAUID, Access: access, Note: r.Value("note")}
		o.Notice = map[tokenserver.Access]string{
			tokenserver.Allowed: "account %s may sign in", tokenserver.Denied: "account %s may not sign in", tokenserver.Unlisted: "removed account %s from the lists",
		}[access]
		o.Notice = fmt.Sprintf(o.Notice, acc.FxAUID)
		return o, s.opened.SetAccess(ctx, acc, rule)
	}}
}
