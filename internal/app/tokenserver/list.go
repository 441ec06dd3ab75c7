package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

func (c *command) userList() *cobra.Command {
	var (
		refused, access bool
		l               = list{command: c}
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List accounts with their usage, refused sign-ins, or the allow and deny lists",
		Long: "List accounts that have storage: how much each stores, its own quota, and its last write, which counts\n" +
			"as its last use because sign-ins are not recorded. Expired records count until they are swept. A\n" +
			"dash means that this server does not know: the storage is on another node, or is not counted (on\n" +
			"Spanner it is only with syncstorage.enable_quota).\n\n" +
			"With --sort id a page reads only its own accounts and their counters. Other orders read the\n" +
			"counters of all accounts, 500 accounts per query. Records are never read.",
		Example: "  holdfast sync user list --sort used --limit 20    # last used first; --reverse: last used last\n" +
			"  holdfast sync user list --sort bytes --json\n" +
			"  holdfast sync user list --refused      # refused sign-ins, for sync user allow\n" +
			"  holdfast sync user list --access       # the allow and deny lists",
		Args: service.Args(),
		RunE: c.withService(func(ctx context.Context, s *tokenserver.Service, _ []string) error {
			if l.limit < 1 {
				return service.Usagef("--limit: must be at least 1")
			}
			if !refused && !access {
				return l.run(ctx)
			}
			w := c.Table()
			var err error
			if refused {
				err = listRefused(ctx, w, s, l.limit)
			} else {
				err = listAccess(ctx, w, s, l.after, l.limit)
			}
			return errors.Join(err, w.Flush())
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&refused, "refused", false, "list refused sign-ins, newest first")
	f.BoolVar(&access, "access", false, "list the allow and deny lists")
	f.BoolVar(&l.replaced, "replaced", false, "include storage users that a newer one has replaced")
	f.StringVar(&l.sort, "sort", "id", "sort by `COLUMN`: id, or greatest first by used, bytes, records or created")
	f.BoolVar(&l.reverse, "reverse", false, "reverse the order")
	f.StringVar(&l.after, "after", "", "continue after `LINE`, as printed at the end of a page (with --access: after an account)")
	f.IntVar(&l.limit, "limit", 1000, "print at most `N` lines")
	f.BoolVar(&l.asJSON, "json", false, "print one line of JSON for each account")
	for _, of := range []string{"refused", "access"} {
		for _, flag := range []string{"replaced", "sort", "reverse", "json"} {
			cmd.MarkFlagsMutuallyExclusive(of, flag)
		}
	}
	cmd.MarkFlagsMutuallyExclusive("refused", "access")
	return cmd
}

// list prints a page of accounts with their usage.
type list struct {
	*command
	replaced, reverse, asJSON bool
	sort, after               string
	limit                     int

	unknown, uncounted bool // some line has no numbers: it is on another node, or has no counters
}

// row is a line of the list.
type row struct {
	tokenserver.User
	here bool // the storage is on this server
	Total
}

// pageRows is how many accounts are read at once, with one query for their counters.
const pageRows = 500

// mostSorted limits the lines that are sorted in memory.
const mostSorted = 100_000

func (l *list) run(ctx context.Context) error {
	o, err := parseOrder(l.sort, l.reverse)
	if err != nil {
		return err
	}
	at, err := o.parseAfter(l.after)
	if err != nil {
		return err
	}
	if !l.asJSON {
		if err := l.head(); err != nil {
			return err
		}
	}
	var last *row // of the page, when more follow
	if o.byID() {
		last, err = l.inOrder(ctx, at.uid)
	} else {
		if l.limit > mostSorted {
			return service.Usagef("--limit: must be at most %d unless the order is --sort id", mostSorted)
		}
		last, err = l.sorted(ctx, o, at)
	}
	if err != nil {
		return err
	}
	return l.end(o, last)
}

// inOrder prints the accounts after a UID, page by page.
func (l *list) inOrder(ctx context.Context, after int64) (last *row, err error) {
	for left := l.limit; ; {
		rows, err := l.read(ctx, after, min(left+1, pageRows))
		if err != nil {
			return nil, err
		}
		n := min(len(rows), left)
		if err := l.print(rows[:n]); err != nil {
			return nil, err
		}
		switch left -= n; {
		case n < len(rows):
			return &rows[n-1], nil
		case len(rows) < min(left+n+1, pageRows):
			return nil, nil
		}
		after = rows[n-1].UID
	}
}

// sorted prints the first accounts after a place in an order.
func (l *list) sorted(ctx context.Context, o order, at place) (last *row, err error) {
	top := newTop(l.limit+1, o)
	for after := int64(0); ; {
		rows, err := l.read(ctx, after, pageRows)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if !at.given || o.compare(at, o.place(&rows[i])) < 0 {
				top.add(rows[i])
			}
		}
		if len(rows) < pageRows {
			break
		}
		after = rows[len(rows)-1].UID
	}
	rows := top.rows()
	n := min(len(rows), l.limit)
	if err := l.print(rows[:n]); err != nil || n == len(rows) {
		return nil, err
	}
	return &rows[n-1], nil
}

func (l *list) read(ctx context.Context, after int64, limit int) ([]row, error) {
	return l.state.rows(ctx, after, limit, l.replaced)
}

// rows returns a page of accounts ordered by UID, with their usage on this server.
func (s *Accounts) rows(ctx context.Context, after int64, limit int, replaced bool) ([]row, error) {
	users, err := s.opened.ListUsers(ctx, after, limit, replaced)
	if err != nil {
		return nil, err
	}
	return s.withUsage(ctx, users)
}

// withUsage returns rows with the usage of users on this server.
func (s *Accounts) withUsage(ctx context.Context, users []tokenserver.User) ([]row, error) {
	rows := make([]row, len(users))
	var local []tokenserver.User
	var at []int
	for i := range users {
		rows[i] = row{User: users[i], here: s.opened.IsLocal(&users[i])}
		if rows[i].here {
			local, at = append(local, users[i]), append(at, i)
		}
	}
	if local == nil {
		return rows, nil
	}
	totals, err := s.storage.Totals(ctx, local)
	if err != nil {
		return nil, err
	}
	for i, t := range totals {
		rows[at[i]].Total = t
	}
	return rows, nil
}

func (l *list) head() error {
	w := l.Table()
	l.line(w, "UID", "ACCOUNT", "NODE", "BYTES", "QUOTA", "RECORDS", "LAST WRITE", "CREATED", "REPLACED")
	return w.Flush()
}

// line prints columns of a fixed width, because a million lines cannot be buffered to
// find the widest. A wider value moves the rest of its line.
func (l *list) line(w *service.Printer, uid, account, node, bytes, quota, records, used, created, replaced string) {
	w.Printf("%-8s  %-32s  %-24s  %12s  %12s  %9s  %-20s  %-20s", uid, account, node, bytes, quota, records, used, created)
	if l.replaced {
		w.Printf("  %s", replaced)
	}
	w.Printf("\n")
}

// print prints rows as lines.
func (l *list) print(rows []row) error {
	w := l.Table()
	for i := range rows {
		r := &rows[i]
		l.unknown = l.unknown || !r.here
		l.uncounted = l.uncounted || r.here && !r.Counted
		if l.asJSON {
			if err := l.PrintLine(r.json()); err != nil {
				return err
			}
			continue
		}
		bytes, quota, records, used := "-", "-", "-", "-"
		if r.here {
			used = service.FormatMillis(r.ModifiedMillis)
			switch {
			case r.Quota.Set && r.Quota.Value == 0:
				quota = "unlimited"
			case r.Quota.Set:
				quota = l.size(r.Quota.Value)
			}
		}
		if r.here && r.Counted {
			bytes, records = l.size(r.Bytes), strconv.FormatInt(r.Records, 10)
		}
		l.line(w, strconv.FormatInt(r.UID, 10), r.Account().FxAUID, r.Node, bytes, quota, records, used,
			service.FormatMillis(r.CreatedAt), service.FormatMillis(r.ReplacedAt))
	}
	return w.Flush()
}

// size formats a number of bytes: exact, or rounded on a terminal.
func (c *command) size(n int64) string {
	if c.OnTerminal() {
		return service.FormatBytes(n)
	}
	return strconv.FormatInt(n, 10)
}

// rowLine is a row as JSON; unknown values are null.
type rowLine struct {
	UID        int64      `json:"uid"`
	Account    string     `json:"account"`
	Node       string     `json:"node"`
	Here       bool       `json:"here"` // the storage is on this server
	Bytes      *int64     `json:"bytes"`
	Records    *int64     `json:"records"`
	Quota      *int64     `json:"quota"` // the account's own; 0: no limit
	LastWrite  *time.Time `json:"lastWrite"`
	CreatedAt  *time.Time `json:"createdAt"`
	ReplacedAt *time.Time `json:"replacedAt"`
}

func (r *row) json() rowLine {
	line := rowLine{
		UID: r.UID, Account: r.Account().FxAUID, Node: r.Node, Here: r.here,
		CreatedAt: moment(r.CreatedAt), ReplacedAt: moment(r.ReplacedAt), LastWrite: moment(r.ModifiedMillis),
	}
	if r.here && r.Counted {
		line.Bytes, line.Records = &r.Bytes, &r.Records
	}
	if r.Quota.Set {
		line.Quota = &r.Quota.Value
	}
	return line
}

func moment(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// end prints how to continue and what the dashes mean.
func (l *list) end(o order, last *row) error {
	if l.unknown && !l.asJSON {
		fmt.Fprintln(l.Stderr, "some accounts have their storage on another node: run the command there to see their usage")
	}
	if l.uncounted && !l.asJSON {
		fmt.Fprintln(l.Stderr, "some users have no counters: on Spanner, bytes are counted when users write with syncstorage.enable_quota; sync user show counts now")
	}
	switch {
	case last == nil:
		return nil
	case l.asJSON:
		return l.PrintLine(map[string]string{"next": o.place(last).String()})
	}
	_, err := fmt.Fprintf(l.Stderr, "there are more: continue with --after %s\n", o.place(last))
	return err
}
