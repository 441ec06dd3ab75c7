// Package storetest tests the contract of a tokenserver.Store. Callers may rely only on the behavior it tests.
//
// Tests of single accounts use fresh accounts in a shared database; other tests use a fresh database.
package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/ident"
	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

// Database is an empty, migrated database.
type Database struct {
	// Store is under test; Other is another process's store on the same database.
	Store, Other ts.Store

	// SQL runs a statement as an unrelated process would, and returns its rows as text, with NULL as "-".
	SQL func(t testing.TB, sql string) [][]string
}

// Opener opens a database and registers cleanups with t. If fault is not nil, Store calls it wherever the engine can
// fail, and returns its error.
type Opener func(t testing.TB, fault func(point string) error) Database

func Run(t *testing.T, open Opener) {
	shared := newEnv(t, open, nil)
	shared.addNode(t, caseNode)
	suite.Suite[env]{
		Groups: groups(),
		New: func(t *testing.T, g suite.Group[env]) env {
			if g.Own {
				return newEnv(t, open, nil)
			}
			return shared
		},
	}.Run(t)
}

type check = suite.Case[env]

func groups() []suite.Group[env] {
	return []suite.Group[env]{
		{Name: "Accounts", Cases: []check{
			{"Cases", testCases},
			{"AccountIsNamed", testAccountIsNamed},
			{"UnknownAccount", testUnknownAccount},
			{"FirstSignIn", testFirstSignIn},
			{"Isolation", testIsolation},
			{"SameKeysSameUser", testSameKeysSameUser},
			{"NewestTwentyCount", testNewestTwentyCount},
			{"UIDsNeverComeAgain", testUIDsNeverComeAgain},
			{"SkipUIDs", testSkipUIDs},
			{"Replace", testReplace},
			{"Retire", testRetire},
			{"Delete", testDelete},
			{"DeleteAll", testDeleteAll},
			{"ChangePassword", testChangePassword},
			{"ForeignWrites", testForeignWrites},
			{"FirstSignInsAtOnce", testFirstSignInsAtOnce},
			{"NewKeysAtOnce", testNewKeysAtOnce},
			{"RetireDuringSignIns", testRetireDuringSignIns},
			{"Access", testAccess},
			{"AccessOfBadNotes", testAccessOfBadNotes},
			{"CancelledBeforehand", testCancelled},
			{"RandomSignIns", testRandomSignIns},
			{"GenerationNeverSinks", testGenerationNeverSinks},
			{"Label", testLabel},
			{"BadLabels", testBadLabels},
			{"LabelGoes", testLabelGoes},
			{"LabelOfRefused", testLabelOfRefused},
			{"RandomLabels", testRandomLabels},
		}},
		{Name: "Tables", Own: true, Cases: []check{
			{"Columns", testColumns},
			{"FirstNode", testFirstNode},
			{"FirstNodeAtOnce", testFirstNodeAtOnce},
			{"NodesOfAnother", testNodesOfAnother},
			{"AddNode", testAddNode},
			{"SetNode", testSetNode},
			{"Allocate", testAllocate},
			{"PlacesAtOnce", testPlacesAtOnce},
			{"NoNode", testNoNode},
			{"Moved", testMoved},
			{"ListUsers", testListUsers},
			{"FindUsers", testFindUsers},
			{"FindLabels", testFindLabels},
			{"Due", testDue},
			{"DuePages", testDuePages},
			{"DueDeleted", testDueDeleted},
			{"Revoked", testRevoked},
			{"Forget", testForget},
			{"ListAccess", testListAccess},
			{"Refused", testRefused},
			{"FindAccounts", testFindAccounts},
			{"RefusedIsBounded", testRefusedIsBounded},
			{"Ping", testPing},
			{"RowsOfAnotherKind", testOtherServices},
		}},
		{Name: "Faults", Cases: faultChecks()},
	}
}

type env struct {
	Database
	open Opener
}

func newEnv(t testing.TB, open Opener, fault func(point string) error) env {
	t.Helper()
	e := env{open(t, fault), open}
	must(t, e.Store.Ping(t.Context()))
	return e
}

var t0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func account() ts.Account { return ts.Account{FxAUID: ident.New(), Domain: "accounts.example"} }

func (e env) addNode(t testing.TB, url string) ts.Node {
	t.Helper()
	n, err := e.Store.AddNode(t.Context(), ts.Node{URL: url, Available: 1 << 30, Capacity: 1 << 30})
	must(t, err)
	return n
}

func (e env) signIn(t testing.TB, a ts.Account, in ts.SignIn) ts.User {
	t.Helper()
	u, err := e.Store.SignIn(t.Context(), a, in)
	if err != nil {
		t.Fatalf("sign in %+v: %v", in, err)
	}
	return u
}

func (e env) users(t testing.TB, a ts.Account) []ts.User {
	t.Helper()
	st, err := e.Store.AccountState(t.Context(), a)
	must(t, err)
	return st.Users
}

func (e env) unreplaced(t testing.TB, a ts.Account) []ts.User {
	t.Helper()
	return slices.DeleteFunc(e.users(t, a), func(u ts.User) bool { return u.Replaced })
}

// exec runs SQL with formatted arguments. Quote strings as '%s'.
func (e env) exec(t testing.TB, format string, args ...any) {
	t.Helper()
	e.SQL(t, fmt.Sprintf(format, args...))
}

func (e env) insert(t testing.TB, a ts.Account, u ts.User) int64 {
	t.Helper()
	null := func(known bool, v int64) string {
		if !known {
			return "NULL"
		}
		return fmt.Sprint(v)
	}
	node := fmt.Sprintf("(SELECT id FROM nodes WHERE node = '%s')", u.Node)
	if u.Node == "" {
		node = "987654321"
	}
	e.exec(t, `INSERT INTO users (service, email, generation, client_state, created_at, replaced_at, nodeid, keys_changed_at)
		VALUES ((SELECT id FROM services WHERE service = 'sync-1.5'), '%s', %d, '%s', %d, %s, %s, %s)`,
		a.Email(), u.Generation, u.ClientState, u.CreatedAt, null(u.Replaced, u.ReplacedAt), node,
		null(u.KeysChangedAt.Known, u.KeysChangedAt.Value))
	rows := e.SQL(t, fmt.Sprintf(`SELECT max(uid) FROM users WHERE email = '%s'`, a.Email()))
	var uid int64
	_, err := fmt.Sscan(rows[0][0], &uid)
	must(t, err)
	return uid
}

func (e env) dump(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{
		"services ORDER BY id", "nodes ORDER BY id", "users ORDER BY uid", "first_node ORDER BY node",
		"account_access ORDER BY fxa_uid", "refused_sign_ins ORDER BY fxa_uid", "account_labels ORDER BY fxa_uid",
	} {
		fmt.Fprintln(&b, table)
		for _, row := range e.SQL(t, "SELECT * FROM "+table) {
			fmt.Fprintln(&b, strings.Join(row, " "))
		}
	}
	return b.String()
}

func must(t suite.TB, err error) {
	t.Helper()
	suite.Must(t, "unexpected", err)
}
