package tokenserver

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/fault"
	"holdfast/internal/tokenserver"
)

// mostShownSorted is the number of accounts up to which a page is sorted by usage. The
// counters are in another database than the accounts, so there is no index of that order,
// and sorting reads those of all accounts.
const mostShownSorted = 2000

func accountCell(id string) service.Cell {
	return service.Cell{Text: id, To: service.PageLink("account", "account", id)}
}

func (s *Accounts) showAccounts(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	t := &service.Table{
		Columns: []service.Column{
			{Title: "UID", Sort: "id", Number: true}, {Title: "Account"}, {Title: "Node"}, {Title: "Bytes", Sort: "bytes", Number: true},
			{Title: "Records", Sort: "records", Number: true}, {Title: "Last write", Sort: "used"}, {Title: "Created", Sort: "created"},
		},
		Empty: "No account has storage.",
	}
	find := &service.Form{Action: "find", Submit: "Show account", Fields: []service.Field{{Name: "account", Label: "Account", Help: "The ID of the account, 32 hexadecimal digits, or a UID."}}}
	view := &service.View{Blocks: []service.Block{find, t}}
	t.Search = []service.Field{{Name: "prefix", Label: "Account begins with", Help: "Up to 31 hexadecimal digits."}}
	if prefix := strings.ToLower(strings.TrimSpace(r.Value("prefix"))); prefix != "" {
		return s.showFound(ctx, view, t, prefix)
	}
	t.Sort = cmp.Or(r.Value("sort"), "id")
	o, err := parseOrder(t.Sort, r.Value("reverse") != "")
	at, failed := o.parseAfter(r.Value("after"))
	if err != nil || failed != nil {
		return nil, fault.New(fault.Invalid, "there is no such order of accounts, or no such place in it")
	}
	var rows []row
	if o.byID() {
		rows, err = s.rows(ctx, at.uid, consoleRows+1, false)
	} else {
		rows, err = s.sortedRows(ctx, o, at, mostShownSorted)
	}
	switch {
	case err != nil:
		return nil, err
	case rows == nil && !o.byID():
		view.Blocks[1] = &service.Notice{State: service.Warning, Text: fmt.Sprintf("There are more than %d accounts, and no index has this order. Sort them with holdfast sync user list --sort %s --limit 100.", mostShownSorted, t.Sort)}
		view.Blocks = append(view.Blocks, &service.Links{All: []service.Link{{Text: "Sort by UID", To: "accounts"}}})
		return view, nil
	}
	if len(rows) > consoleRows {
		rows = rows[:consoleRows]
		t.Next = o.place(&rows[consoleRows-1]).String()
	}
	for i := range rows {
		t.Rows = append(t.Rows, rows[i].cells())
	}
	return view, nil
}

// showFound shows the first accounts whose ID begins with prefix.
func (s *Accounts) showFound(ctx context.Context, view *service.View, t *service.Table, prefix string) (*service.View, error) {
	t.Empty = "No account that has storage begins with this."
	users, err := s.opened.FindUsers(ctx, prefix, consoleRows+1)
	if fault.Is(err, fault.Invalid) {
		view.Blocks = append(view.Blocks, &service.Notice{State: service.Wrong, Text: fault.Message(err)})
		return view, nil
	} else if err != nil {
		return nil, err
	}
	if len(users) > consoleRows {
		users = users[:consoleRows]
		view.Blocks = append(view.Blocks, &service.Notice{State: service.Warning, Text: fmt.Sprintf("These are the first %d accounts. Type more digits to see others.", consoleRows)})
	}
	rows, err := s.withUsage(ctx, users)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		t.Rows = append(t.Rows, rows[i].cells())
	}
	return view, nil
}

// cells are the cells of a row. What this server does not know is a dash.
func (r *row) cells() []service.Cell {
	bytes, records, used := service.TextCell("-"), service.TextCell("-"), service.TextCell("-")
	if r.here {
		used = service.MillisCell(r.ModifiedMillis)
	}
	if r.here && r.Counted {
		bytes, records = service.TextCell(service.FormatBytes(r.Bytes)), service.TextCell(strconv.FormatInt(r.Records, 10))
	}
	return []service.Cell{
		service.TextCell(strconv.FormatInt(r.UID, 10)), accountCell(r.Account().FxAUID), service.TextCell(r.Node), bytes, records, used,
		service.MillisCell(r.CreatedAt),
	}
}

// sortedRows returns the first rows after a place in an order, one more than a page has,
// or nil if there are more than most accounts.
func (s *Accounts) sortedRows(ctx context.Context, o order, at place, most int) ([]row, error) {
	nodes, err := s.opened.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	var assigned int64
	for _, n := range nodes {
		assigned += n.Load
	}
	if assigned > int64(most) { // otherwise this would be found after reading so many
		return nil, nil
	}
	first := newTop(consoleRows+1, o)
	for after, n := int64(0), 0; ; {
		rows, err := s.rows(ctx, after, pageRows, false)
		if err != nil {
			return nil, err
		}
		if n += len(rows); n > most {
			return nil, nil
		}
		for i := range rows {
			if !at.given || o.compare(at, o.place(&rows[i])) < 0 {
				first.add(rows[i])
			}
		}
		if len(rows) < pageRows {
			return append([]row{}, first.rows()...), nil
		}
		after = rows[len(rows)-1].UID
	}
}

// known returns the state of an account that is in the database.
func (s *Accounts) known(ctx context.Context, id string) (acc tokenserver.Account, st tokenserver.AccountState, err error) {
	if acc, err = s.opened.ParseAccount(id); err != nil {
		return acc, st, err
	}
	if st, err = s.opened.AccountState(ctx, acc); err == nil && len(st.Users) == 0 && st.Access == tokenserver.Unlisted {
		err = unknown(acc)
	}
	return acc, st, err
}

func (s *Accounts) findAccount(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	id := strings.TrimSpace(r.Value("account"))
	if uid, err := strconv.ParseInt(id, 10, 64); err == nil && len(id) < 20 {
		users, err := s.opened.ListUsers(ctx, uid-1, 1, true)
		if err != nil {
			return o, err
		}
		if len(users) == 0 || users[0].UID != uid {
			return o, fault.Newf(fault.NotFound, "no account has the UID %d", uid)
		}
		id = users[0].Account().FxAUID
	}
	acc, _, err := s.known(ctx, id)
	o.Next = service.PageLink("account", "account", acc.FxAUID)
	return o, err
}

func (s *Accounts) showAccount(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	acc, st, err := s.known(ctx, r.Value("account"))
	if err != nil {
		return nil, err
	}
	keep := map[string]string{"account": acc.FxAUID}
	view := &service.View{Title: "Account " + acc.FxAUID, Parents: []service.Link{{Text: "Accounts", To: "accounts"}}, Blocks: []service.Block{
		&service.Facts{Rows: []service.Fact{{Name: "Access", Cell: service.TextCell(st.Access.String())}}},
	}}
	for _, f := range []struct {
		to   tokenserver.Access
		form service.Form
	}{
		{tokenserver.Allowed, service.Form{Action: "allow", Submit: "Allow"}},
		{tokenserver.Denied, service.Form{Action: "deny", Submit: "Deny", Danger: true}},
		{tokenserver.Unlisted, service.Form{Action: "remove", Submit: "Remove from the lists"}},
	} {
		if f.to != st.Access {
			f.form.Page, f.form.Keep = "access", keep
			view.Blocks = append(view.Blocks, &f.form)
		}
	}
	for i := range st.Users {
		blocks, err := s.userBlocks(ctx, &st.Users[i])
		if err != nil {
			return nil, err
		}
		view.Blocks = append(view.Blocks, blocks...)
	}
	if len(st.Users) == 0 {
		view.Blocks = append(view.Blocks, &service.Text{Body: "The account has never signed in here, so it has no storage."})
		return view, nil
	}
	view.Blocks = append(view.Blocks,
		&service.Form{Title: "Quota", Action: "quota", Submit: "Set quota", Keep: keep, Fields: []service.Field{
			{Name: "quota", Label: "Quota", Help: "Bytes such as 5000000 or 500MiB, unlimited, or none for the quota of the configuration."},
		}},
		&service.Form{
			Title: "Delete the data", Text: "Everything that the account stores is deleted. It may sign in again and starts empty; to prevent that, deny it first.",
			Action: "delete", Submit: "Delete data", Danger: true, Confirm: acc.FxAUID, Keep: keep,
		})
	return view, nil
}

// userBlocks shows a storage user with its collections.
func (s *Accounts) userBlocks(ctx context.Context, u *tokenserver.User) ([]service.Block, error) {
	ended := "Replaced"
	if u.IsDeleted() {
		ended = "Deleted"
	}
	facts := &service.Facts{Title: "Storage user " + strconv.FormatInt(u.UID, 10), Rows: []service.Fact{
		{Name: "Node", Cell: service.TextCell(u.Node)}, {Name: "Keys", Cell: service.TextCell(u.KeyID().String())},
		{Name: "Created", Cell: service.MillisCell(u.CreatedAt)}, {Name: ended, Cell: service.MillisCell(u.ReplacedAt)},
	}}
	if !s.opened.IsLocal(u) {
		where := service.TextCell("on another node")
		if !s.storage.IsOpen() {
			where = service.Cell{State: service.Warning, Text: "unknown: syncstorage is disabled on this server"}
		}
		facts.Rows = append(facts.Rows, service.Fact{Name: "Stored", Cell: where})
		return []service.Block{facts}, nil
	}
	usage, err := s.storage.Usage(ctx, u)
	if err != nil {
		return nil, err
	}
	stored := service.Cell{Text: bytesOf(usage.Bytes, usage.Quota), Share: float64(usage.Bytes), Most: float64(usage.Quota)}
	if usage.OwnQuota {
		stored.Text += " (a quota of its own)"
	}
	facts.Rows = append(facts.Rows, service.Fact{Name: "Stored", Cell: stored}, service.Fact{Name: "Last write", Cell: service.MillisCell(usage.ModifiedMillis)})
	t := &service.Table{Title: "Collections of storage user " + strconv.FormatInt(u.UID, 10), Columns: []service.Column{{Title: "Collection"}, {Title: "Records", Number: true}, {Title: "Bytes"}}, Empty: "There are no collections."}
	for _, c := range usage.Collections {
		bytes := service.Cell{Text: bytesOf(c.Bytes, usage.CollectionQuota), Share: float64(c.Bytes), Most: float64(usage.Bytes), Whole: true}
		if usage.CollectionQuota > 0 {
			bytes.Most, bytes.Whole = float64(usage.CollectionQuota), false
		}
		t.Rows = append(t.Rows, []service.Cell{service.TextCell(c.Name), service.TextCell(strconv.FormatInt(c.Records, 10)), bytes})
	}
	return []service.Block{facts, t}, nil
}

func (s *Accounts) changeQuota(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	quota, err := parseQuota(r.Value("quota"))
	if err != nil {
		return o, err
	}
	if !s.storage.IsOpen() {
		return o, service.Usagef("%v", errNoStorage)
	}
	users, err := s.usersOf(ctx, r.Value("account"))
	if err != nil {
		return o, err
	}
	warning, err := s.setQuota(ctx, users, quota)
	o.Notice = "the quota is set"
	if warning != "" {
		o.Notice += ", but " + warning
	}
	return o, err
}

func (s *Accounts) deleteAccount(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	acc, err := s.opened.ParseAccount(r.Value("account"))
	if err != nil {
		return o, err
	}
	n, err := s.opened.DeleteAccount(ctx, acc)
	if err == nil && n == 0 {
		err = withoutStorage(acc)
	}
	o.Notice = "deleted the data of " + service.Count(int64(n), "storage user")
	return o, err
}
