package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// accountOperations declares the operations on accounts, except export and import, which accountTransfers declares.
func (s *Accounts) accountOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "accounts", Limit: 1000, Resumes: true, PageRows: mostSorted, Title: "Accounts", Empty: "No matching account has storage.",
			Doc: "List accounts with their usage", Group: "Manage accounts",
			More: "Lists accounts with storage: their usage, own quota, and last write, which counts as their last use because\n" +
				"sign-ins are not recorded. Expired records count until they are swept. A dash means unknown: the storage is\n" +
				"on another node, or is not counted (on Spanner it is only with syncstorage.enable_quota).\n\n" +
				"With --sort id, a page reads only its own accounts and their counters. Other orders read all accounts'\n" +
				"counters, 500 accounts per query. Records are never read.",
			Example: "--sort used --limit 20    # last used first; --reverse: last used last\n--sort bytes --json\n",
		}, s.listAccounts),
		operate.NewRead(operate.About{
			Access: operate.ForViewers, Path: "accounts/show", Doc: "Show an account: its storage users and how much they store", Title: "Account", Finds: "Show account",
			More:    "ACCOUNT is the account's ID, 32 hexadecimal digits, its first 4 or more digits, its label, or a storage\nuser's UID.",
			Example: "0123456789abcdef0123456789abcdef\n", Offers: []string{"access/allow", "access/deny", "access/remove"},
		}, s.showAccount),
		s.labelOperation(),
		s.quotaOperation(),
		operate.NewJob(operate.About{
			Path: "accounts/delete", Doc: "Delete everything that an account stores", Button: "Delete data", Counts: "storage users", NeedsYes: true, Danger: true,
			Title: "Delete the data", Retypes: true, Stays: true,
			Text: "Everything that the account stores is deleted. It may sign in again and starts empty; to prevent that, deny it first.",
			More: "Deletes all data in the account's storage. The account can sign in again and starts empty; to prevent\n" +
				"that, deny it. Its storage users stay listed as replaced until their tokens have expired\n" +
				"(tokenserver.token_duration). Anything written until then to a storage node that does not refuse these\n" +
				"tokens is deleted afterwards.",
			Example: "0123456789abcdef0123456789abcdef --yes\n",
		}, s.deleteAccount),
	}
}

// accountOutput is an account with its storage users, newest first. Users is empty for an account that is only listed
// or labelled.
type accountOutput struct {
	Label       string             `json:"label" title:"Label" names:"account" example:"anna@example.org"`
	LabelFrom   string             `json:"labelFrom,omitempty" enum:"operator,profile" doc:"source of the label"`
	Account     string             `json:"account" title:"Account" subject:"account" example:"0123456789abcdef0123456789abcdef"`
	Access      string             `json:"access" title:"Access" enum:"allow,deny,unlisted"`
	Users       []userOutput       `json:"users" table:"Storage users" empty:"The account has never signed in here, so it has no storage."`
	Collections []collectionOutput `json:"collections" table:"Collections" empty:"There are no collections."`
}

// Offers hides buttons without effect: the account's present rule, and changes of storage that does not exist.
func (a accountOutput) Offers(verb string) bool {
	switch verb {
	case "label":
		return true
	case "quota", "delete":
		return len(a.Users) > 0
	case "remove":
		return a.Access != tokenserver.Unlisted.String()
	}
	return verb != a.Access
}

// userOutput is a storage user: an account with a set of keys on a node. An account gets a new user when its keys or
// its node change.
type userOutput struct {
	UID       int64     `json:"uid" title:"UID"`
	Node      string    `json:"node" title:"Node"`
	Keys      string    `json:"keys" title:"Keys" doc:"ID of the account's keys"`
	Created   time.Time `json:"createdAt" title:"Created"`
	Replaced  time.Time `json:"replacedAt,omitzero" title:"Replaced"`
	State     string    `json:"state" title:"State" enum:"current,replaced,deleted" doc:"replaced: by a newer user; deleted: by the operator"`
	Stored    stored    `json:"-" title:"Stored"`
	Bytes     *int64    `json:"bytes,omitempty" doc:"stored data; absent if stored on another server"`
	Quota     *int64    `json:"quota,omitempty" doc:"quota in bytes; 0: no limit"`
	OwnQuota  bool      `json:"ownQuota" doc:"own quota, not the configured default"`
	LastWrite time.Time `json:"lastWrite,omitzero" title:"Last write"`
}

// stateOf returns deleted before replaced, because a deleted user is also replaced.
func stateOf(u *tokenserver.User) string {
	switch {
	case u.IsDeleted():
		return "deleted"
	case u.Replaced:
		return "replaced"
	}
	return "current"
}

// stored shows bytes with their limit: exact as a String, rounded and as a bar for people.
type stored struct {
	// bytes are used; limit is the maximum, or 0.
	bytes, limit int64
	of           int64  // without a limit: the total
	note         string // after the number
	elsewhere    string // shown instead of the number
}

// String is for scripts: exact bytes.
func (s stored) String() string {
	switch {
	case s.elsewhere != "":
		return s.elsewhere
	case s.limit == 0:
		return service.Count(s.bytes, "byte") + s.note
	}
	return fmt.Sprintf("%d of %d bytes", s.bytes, s.limit) + s.note
}

// Rounded is for terminals.
func (s stored) Rounded() string {
	switch {
	case s.elsewhere != "":
		return s.elsewhere
	case s.limit == 0:
		return service.FormatBytes(s.bytes) + s.note
	}
	return service.FormatBytes(s.bytes) + " of " + service.FormatBytes(s.limit) + s.note
}

// Cell draws a bar: the share of the limit or, without a limit, of the account's total.
func (s stored) Cell() service.Cell {
	c := service.Cell{Text: s.Rounded(), Share: float64(s.bytes), Most: float64(s.limit)}
	if s.limit == 0 {
		c.Most, c.Whole = float64(s.of), true
	}
	return c
}

// collectionOutput is a collection of the storage user UID. Bytes has the same value as Stored, for JSON.
type collectionOutput struct {
	UID     int64  `json:"uid" title:"UID"`
	Name    string `json:"name" title:"Collection" main:"" example:"bookmarks"`
	Records int64  `json:"records" title:"Records" least:"0"`
	Stored  stored `json:"-" title:"Bytes"`
	Bytes   int64  `json:"bytes" least:"0"`
}

// showInput also accepts a UID, because logs name storage users.
type showInput struct {
	Account string `subject:"account" doc:"account ID, 32 hexadecimal digits, its first 4 or more digits, its label, or the UID of one of its storage users" example:"0123456789abcdef0123456789abcdef"`
}

// showAccount reads the usage of every storage user, also of replaced users whose data is not deleted yet.
func (s *Accounts) showAccount(ctx context.Context, in showInput) (out accountOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return out, err
	}
	account, st, err := s.known(ctx, open, in.Account)
	if err != nil {
		return out, err
	}
	labels, err := open.LabelsOf(ctx, []string{account.FxAUID})
	if err != nil {
		return out, err
	}
	label := labels[account.FxAUID]
	out = accountOutput{Label: label.Text, LabelFrom: labelFrom(label), Account: account.FxAUID, Access: st.Access.String(), Users: []userOutput{}, Collections: []collectionOutput{}}
	for i := range st.Users {
		if err := s.addUser(ctx, &out, &st.Users[i]); err != nil {
			return out, err
		}
	}
	return out, nil
}

// addUser appends a storage user with its collections. Usage is unknown, and not an error, if the user's data is on
// another node or this server stores no records.
func (s *Accounts) addUser(ctx context.Context, out *accountOutput, u *tokenserver.User) error {
	user := userOutput{
		UID: u.UID, Node: u.Node, Keys: u.KeyID().String(), Created: moment(u.CreatedAt), Replaced: moment(u.ReplacedAt), State: stateOf(u),
	}
	switch {
	case s.opened.IsLocal(u):
		usage, err := s.storage.Usage(ctx, u)
		if err != nil {
			return err
		}
		user.Bytes, user.Quota, user.OwnQuota, user.LastWrite = &usage.Bytes, &usage.Quota, usage.OwnQuota, moment(usage.ModifiedMillis)
		user.Stored = stored{bytes: usage.Bytes, limit: usage.Quota}
		if usage.OwnQuota {
			user.Stored.note = " (a quota of its own)"
		}
		for _, c := range usage.Collections {
			out.Collections = append(out.Collections, collectionOutput{u.UID, c.Name, c.Records, stored{bytes: c.Bytes, limit: usage.CollectionQuota, of: usage.Bytes}, c.Bytes})
		}
	case s.storage.IsOpen():
		user.Stored.elsewhere = "on another node"
	default:
		user.Stored.elsewhere = "unknown: syncstorage is disabled on this server"
	}
	out.Users = append(out.Users, user)
	return nil
}

// known looks up an account by UID or as accountNamed does. It does not check the ID first, because a database may contain IDs that
// Mozilla's accounts server does not use.
func (s *Accounts) known(ctx context.Context, open *tokenserver.Service, id string) (acc tokenserver.Account, st tokenserver.AccountState, err error) {
	// An account ID of 32 decimal digits is no UID.
	if uid, err := strconv.ParseInt(id, 10, 64); err == nil && len(id) < 20 {
		users, err := open.ListUsers(ctx, uid-1, 1, true)
		if err != nil {
			return acc, st, err
		}
		if len(users) == 0 || users[0].UID != uid {
			return acc, st, errcode.Newf(errcode.NotFound, "no account has the UID %d", uid)
		}
		id = users[0].Account().FxAUID
	} else if found, err := accountNamed(ctx, open, id); err == nil {
		id = found
	} else if !errors.Is(err, errUnnamed) {
		return acc, st, err
	}
	if acc, err = open.ParseAccount(id); err != nil {
		return acc, st, err
	}
	if st, err = open.AccountState(ctx, acc); err != nil || len(st.Users) > 0 || st.Access != tokenserver.Unlisted {
		return acc, st, err
	}
	if labels, err := open.LabelsOf(ctx, []string{acc.FxAUID}); err != nil || len(labels) > 0 {
		return acc, st, err
	}
	if !tokenserver.IsAccountID(acc.FxAUID) {
		return acc, st, errAccountID
	}
	return acc, st, errcode.Newf(errcode.NotFound, "account %s is unknown: it never signed in here or was deleted, and is not on the allow or deny list; tokenserver accounts list and tokenserver refused list print known IDs", acc.FxAUID)
}

// deleted reports accounts/delete.
type deleted struct {
	Account string `json:"account" subject:"account"`
	Users   int    `json:"users" least:"0" doc:"storage users"`
	service.Deleted
}

// Notice is "" if nothing was deleted: then only the error is shown.
func (d deleted) Notice() string {
	if d.Users == 0 {
		return ""
	}
	return "deleted the data of " + service.Count(int64(d.Users), "storage user") + d.Retained.Notice()
}

// deleteAccount may have deleted some storage users when it fails.
func (s *Accounts) deleteAccount(ctx context.Context, in accountInput, _ operate.Progress) (out deleted, err error) {
	open, err := s.ready()
	if err != nil {
		return out, err
	}
	account, err := open.ParseAccount(in.Account)
	if err != nil {
		return out, err
	}
	out.Account = account.FxAUID
	if out.Users, err = open.DeleteAccount(ctx, account); err == nil && out.Users == 0 {
		err = withoutStorage(account)
	}
	if err != nil {
		return out, err
	}
	out.Deleted, err = s.deps.Deleted(time.Time{}, Name, storageName)
	return out, err
}
