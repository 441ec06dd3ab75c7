package tokenserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// pageRows limits the accounts per read. A single query returns their counters.
const pageRows = 500

// mostSorted limits a command's rows in memory. Unless ordered by UID, the command reads all counters once per
// mostSorted rows.
const mostSorted = 100_000

// mostServed limits the accounts that a server sorts per request. The counters are in a different database, so sorting
// reads all of them.
const mostServed = 2000

// listInput selects and orders accounts. Label and Prefix use an index and ignore Sort and Reverse.
type listInput struct {
	Label    string `flag:"label" doc:"only accounts whose label starts with this, ignoring case; ordered by label" title:"Label begins with"`
	Prefix   string `flag:"prefix" doc:"only accounts whose ID starts with this, up to 31 hexadecimal digits; ordered by ID" title:"Account begins with"`
	Sort     string `flag:"sort" doc:"order: id, or greatest first by used, bytes, records or created" default:"id"`
	Reverse  bool   `flag:"reverse" doc:"reverse the order"`
	Replaced bool   `flag:"replaced" doc:"include replaced storage users"`
	operate.Page[string]
}

// Check parses After only for the orders of Sort; the other positions are texts that any value matches.
func (in listInput) Check() error {
	o, err := parseOrder(in.Sort, in.Reverse)
	if in.Prefix != "" && in.Label != "" {
		return &operate.InputError{Input: "label", Reason: "must not be given with prefix"}
	}
	if err == nil && in.Prefix == "" && in.Label == "" {
		_, err = o.parseAfter(in.After)
	}
	return err
}

// userUsage is a storage user with its counters.
type userUsage struct {
	tokenserver.User
	// here says that this server stores the user's records; otherwise Total is empty.
	here bool
	Total
}

// rowOutput is a storage user in the list. A nil pointer means unknown (Bytes, Records) or none (Quota, LastWrite,
// Replaced); JSON shows null.
type rowOutput struct {
	Label     string         `json:"label" title:"Label" zero:"-" names:"account" example:"anna@example.org"`
	Account   string         `json:"account" title:"Account" subject:"account" example:"0123456789abcdef0123456789abcdef"`
	UID       int64          `json:"uid" title:"UID" sort:"id"`
	Node      string         `json:"node" title:"Node"`
	Here      bool           `json:"here" doc:"stored on this server"`
	Bytes     *service.Bytes `json:"bytes" title:"Bytes" zero:"-" sort:"bytes"`
	Quota     *quota         `json:"quota" title:"Quota" zero:"-" doc:"own quota in bytes; 0: no limit"`
	Records   *int64         `json:"records" title:"Records" zero:"-" sort:"records"`
	LastWrite *time.Time     `json:"lastWrite" title:"Last write" zero:"-" sort:"used"`
	Created   *time.Time     `json:"createdAt" title:"Created" zero:"-" sort:"created"`
	Replaced  *time.Time     `json:"replacedAt" title:"Replaced" zero:"-" with:"replaced"`
	// Position is the input after for the next page; its form depends on the order.
	Position string `json:"-" cursor:""`

	// note explains unknown usage, and is printed once below the list.
	note string
}

// Note is printed by the command, each text once.
func (r rowOutput) Note() string { return r.note }

// output leaves Label to labelled, which reads a page's labels together.
func (r *userUsage) output(o order) rowOutput {
	out := rowOutput{
		UID: r.UID, Account: r.Account().FxAUID, Node: r.Node, Here: r.here, Position: o.position(r).String(),
		Created: timeOf(r.CreatedAt), Replaced: timeOf(r.ReplacedAt), LastWrite: timeOf(r.ModifiedMillis),
	}
	switch {
	case !r.here:
		out.note = "some accounts are stored on another node: run the command there to see their usage"
	case !r.Counted:
		out.note = "some users have no counters yet: on Spanner, bytes are counted when users write with syncstorage.enable_quota; tokenserver accounts show counts now"
	default:
		bytes := service.Bytes(r.Bytes)
		out.Bytes, out.Records = &bytes, &r.Records
	}
	if r.Quota.Set {
		own := quota(r.Quota.Value)
		out.Quota = &own
	}
	return out
}

// moment converts Unix milliseconds; 0 becomes the zero time.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// timeOf converts Unix milliseconds for JSON; 0 becomes null.
func timeOf(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := moment(ms)
	return &t
}

// listAccounts chooses the cheapest way to read the page: by an index for a prefix, a label or a UID, otherwise by
// sorting all accounts.
func (s *Accounts) listAccounts(ctx context.Context, in listInput) (all []rowOutput, err error) {
	if _, err := s.ready(); err != nil {
		return nil, err
	}
	o, err := parseOrder(in.Sort, in.Reverse)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Prefix != "":
		return s.foundAccounts(ctx, o, in)
	case in.Label != "":
		return s.labelledAccounts(ctx, o, in)
	}
	at, err := o.parseAfter(in.After)
	if err != nil {
		return nil, err
	}
	var rows []userUsage
	switch {
	case o.byID():
		rows, err = s.rowsAfter(ctx, at.uid, in.Limit, in.Replaced)
	default:
		rows, err = s.sortedRows(ctx, o, at, in)
	}
	if err != nil {
		return nil, err
	}
	return s.outputs(ctx, o, rows)
}

// outputs converts a page and adds its labels.
func (s *Accounts) outputs(ctx context.Context, o order, rows []userUsage) ([]rowOutput, error) {
	all := make([]rowOutput, len(rows))
	for i := range rows {
		all[i] = rows[i].output(o)
	}
	return all, labelled(ctx, s.opened, all, func(r *rowOutput) (string, *string) { return r.Account, &r.Label })
}

// foundAccounts lists the accounts whose ID begins with in.Prefix, ordered by ID. A position is the storage user's
// email. Replaced users are not listed.
func (s *Accounts) foundAccounts(ctx context.Context, o order, in listInput) (all []rowOutput, err error) {
	users, err := s.opened.FindUsers(ctx, strings.ToLower(strings.TrimSpace(in.Prefix)), in.After, in.Limit)
	if errcode.Is(err, errcode.Invalid) {
		err = &operate.InputError{Input: "prefix", Reason: errcode.Message(err)}
	}
	if err != nil {
		return nil, err
	}
	rows, err := s.withUsage(ctx, users)
	if err != nil {
		return nil, err
	}
	all, err = s.outputs(ctx, o, rows)
	for i := range all {
		all[i].Position = rows[i].Email
	}
	return all, err
}

// rowsAfter reads users in the order of UIDs, pageRows at a time. after is exclusive.
func (s *Accounts) rowsAfter(ctx context.Context, after int64, limit int, replaced bool) (all []userUsage, err error) {
	for len(all) < limit {
		n := min(limit-len(all), pageRows)
		rows, err := s.rows(ctx, after, n, replaced)
		if err != nil {
			return nil, err
		}
		if all = append(all, rows...); len(rows) < n {
			break
		}
		after = rows[len(rows)-1].UID
	}
	return all, nil
}

// sortedRows reads all users with their counters and keeps the first in.Limit rows after at. Memory is limited by
// in.Limit, time by the number of accounts.
func (s *Accounts) sortedRows(ctx context.Context, o order, at position, in listInput) ([]userUsage, error) {
	if err := s.checkServed(ctx, in.Sort); err != nil {
		return nil, err
	}
	first := newTop(in.Limit, o)
	for after := int64(0); ; {
		rows, err := s.rows(ctx, after, pageRows, in.Replaced)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if !at.given || o.compare(at, o.position(&rows[i])) < 0 {
				first.add(rows[i])
			}
		}
		if len(rows) < pageRows {
			return first.rows(), nil
		}
		after = rows[len(rows)-1].UID
	}
}

// checkServed refuses to sort many accounts in a server, which would hold up the database for other requests. A command
// is not refused. The nodes' loads are the number of accounts, without counting them.
func (s *Accounts) checkServed(ctx context.Context, sort string) error {
	if !s.serves.Load() {
		return nil
	}
	nodes, err := s.opened.ListNodes(ctx)
	if err != nil {
		return err
	}
	var assigned int64
	for _, n := range nodes {
		assigned += n.Load
	}
	if assigned > s.mostServed {
		return &operate.InputError{Input: "sort", Reason: fmt.Sprintf("there are more than %d accounts, and this order has no index: sort them with holdfast tokenserver accounts list --sort %s --limit 100", s.mostServed, sort)}
	}
	return nil
}

// rows reads a page of users with their counters. A page shorter than limit is the last page.
func (s *Accounts) rows(ctx context.Context, after int64, limit int, replaced bool) ([]userUsage, error) {
	users, err := s.opened.ListUsers(ctx, after, limit, replaced)
	if err != nil {
		return nil, err
	}
	return s.withUsage(ctx, users)
}

// withUsage adds the counters of the users on this server, with one query.
func (s *Accounts) withUsage(ctx context.Context, users []tokenserver.User) ([]userUsage, error) {
	rows := make([]userUsage, len(users))
	var local []tokenserver.User
	var at []int
	for i := range users {
		rows[i] = userUsage{User: users[i], here: s.opened.IsLocal(&users[i])}
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
