package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

func (e env) label(t testing.TB, a ts.Account) ts.Label {
	t.Helper()
	labels, err := e.Store.LabelsOf(t.Context(), []string{a.FxAUID, "another"})
	must(t, err)
	return labels[a.FxAUID]
}

func (e env) setLabel(t testing.TB, a ts.Account, l ts.Label) bool {
	t.Helper()
	l.FxAUID = a.FxAUID
	set, err := e.Store.SetLabel(t.Context(), a, l)
	must(t, err)
	return set
}

func testLabel(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	mine := ts.Label{FxAUID: a.FxAUID, Text: "Zoë's phone <b>%_'\"\\", SetAt: 5}
	theirs := ts.Label{FxAUID: a.FxAUID, Text: "zoe@example.org", FromProfile: true, SetAt: 6}
	is := func(what string, want ts.Label) {
		t.Helper()
		if got := e.label(t, a); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	is("without a label", ts.Label{})
	if e.setLabel(t, a, theirs) {
		t.Error("a profile labelled an account that has never signed in")
	}
	if !e.setLabel(t, a, mine) {
		t.Error("not set")
	}
	is("an account that has never signed in", mine)
	e.signIn(t, a, signIn(7, "aa", 5))
	if e.setLabel(t, a, theirs) {
		t.Error("a profile replaced a label of the operator")
	}
	is("after the profile", mine)
	e.setLabel(t, a, ts.Label{})
	is("removed", ts.Label{})
	if !e.setLabel(t, a, theirs) {
		t.Error("the profile's label was not set")
	}
	is("of the profile", theirs)
	theirs.Text, theirs.SetAt = "ZOE@example.com", 7
	e.setLabel(t, a, theirs)
	is("of a new profile", theirs)
	e.setLabel(t, a, mine)
	is("of the operator again", mine)
	if labels, err := e.Store.LabelsOf(ctx, nil); err != nil || len(labels) != 0 {
		t.Errorf("labels of no account: %v, %v", labels, err)
	}
	if _, err := e.Store.SetLabel(ctx, ts.Account{}, mine); !errcode.Is(err, errcode.Denied) {
		t.Errorf("an account without an ID: %v", err)
	}
}

func testBadLabels(t *testing.T, e env) {
	ctx, a := t.Context(), account()
	for _, text := range []string{
		"a\x00b", "\xff", "a\nb", "\t", " a", "a ", "\u202eexe", "a\u200bb", "\ufeff", "a\u00a0b", strings.Repeat("ü", ts.MaxLabel+1), string(unicode.MaxRune),
	} {
		_, err := e.Store.SetLabel(ctx, a, ts.Label{Text: text})
		suite.WantCode(t, fmt.Sprintf("SetLabel %q", text), err, errcode.Invalid)
	}
	_, err := e.Store.SetLabel(ctx, a, ts.Label{FromProfile: true})
	suite.WantCode(t, "an empty label of a profile", err, errcode.Invalid)
	for _, text := range []string{strings.Repeat("😀", ts.MaxLabel), strings.Repeat("İ", ts.MaxLabel), "a b"} {
		if e.setLabel(t, a, ts.Label{Text: text}); e.label(t, a).Text != text {
			t.Errorf("%q became %q", text, e.label(t, a).Text)
		}
	}
}

func testLabelGoes(t *testing.T, e env) {
	ctx := t.Context()
	both := func(what string, want bool, end func(a ts.Account, u ts.User)) {
		t.Helper()
		for _, fromProfile := range []bool{false, true} {
			a := account()
			u := e.signIn(t, a, signIn(7, "aa", 5))
			e.setLabel(t, a, ts.Label{Text: "x", FromProfile: fromProfile})
			end(a, u)
			if got := e.label(t, a).Text == "x"; got != want {
				t.Errorf("%s, from the profile: %v: kept: %v", what, fromProfile, got)
			}
		}
	}
	forget := func(uid int64) { must(t, e.Store.Forget(ctx, uid)) }
	replace := func(a ts.Account, retire bool) {
		_, err := e.Store.Replace(ctx, a, t0, retire)
		must(t, err)
	}
	both("deleted", false, func(a ts.Account, _ ts.User) { _, err := e.Store.Delete(ctx, a, t0); must(t, err) })
	both("deleted by the accounts server", false, func(a ts.Account, _ ts.User) { replace(a, true) })
	both("moved", true, func(a ts.Account, _ ts.User) { replace(a, false) })
	both("the current row is not forgotten", true, func(_ ts.Account, u ts.User) { forget(u.UID) })
	both("forgotten", false, func(a ts.Account, u ts.User) { replace(a, false); forget(u.UID) })
	both("one of two rows is forgotten", true, func(a ts.Account, u ts.User) { e.signIn(t, a, signIn(8, "bb", 8)); forget(u.UID) })
	both("forgotten, but on a list", true, func(a ts.Account, u ts.User) {
		replace(a, false)
		must(t, e.Store.SetAccess(ctx, a, ts.Rule{Access: ts.Denied}, t0))
		forget(u.UID)
	})
	both("another account is deleted", true, func(ts.Account, ts.User) { _, err := e.Store.Delete(ctx, account(), t0); must(t, err) })
}

// refuse makes a sign-in that is refused and recorded.
func (e env) refuse(t testing.TB, a ts.Account) {
	t.Helper()
	_, err := e.Store.SignIn(t.Context(), a, closed(signIn(7, "aa", 5)))
	suite.WantCode(t, "SignIn", err, errcode.Denied)
}

// testLabelOfRefused checks that a profile labels a refused account, and that the label outlives the operator's decision
// to allow or deny, but not the last trace of an account that never signed in.
func testLabelOfRefused(t *testing.T, e env) {
	ctx := t.Context()
	set := func(a ts.Account, access ts.Access) { must(t, e.Store.SetAccess(ctx, a, ts.Rule{Access: access}, t0)) }
	trim := func(ts.Account) {
		var values []string
		for i := range ts.MaxRefused {
			values = append(values, fmt.Sprintf("('%s%04d', 1, %d, 1)", account().FxAUID, i, t0.UnixMilli()+1))
		}
		e.exec(t, `INSERT INTO refused_sign_ins (fxa_uid, first_at, last_at, attempts) VALUES %s`, strings.Join(values, ", "))
		in := closed(signIn(7, "aa", 5))
		in.Now = t0.Add(time.Hour)
		_, err := e.Store.SignIn(ctx, account(), in)
		suite.WantCode(t, "SignIn", err, errcode.Denied)
	}
	for _, c := range []struct {
		name          string
		fromProfile   bool
		then          func(ts.Account)
		kept, refused bool
	}{
		{"refused", true, func(ts.Account) {}, true, true},
		{"allowed", true, func(a ts.Account) { set(a, ts.Allowed) }, true, false},
		{"denied", true, func(a ts.Account) { set(a, ts.Denied) }, true, false},
		{"allowed and signed in", true, func(a ts.Account) {
			set(a, ts.Allowed)
			e.signIn(t, a, closed(signIn(7, "aa", 5)))
			set(a, ts.Unlisted)
		}, true, false},
		{"removed from the lists", true, func(a ts.Account) { set(a, ts.Allowed); set(a, ts.Unlisted) }, false, false},
		{"the operator's label, removed from the lists", false, func(a ts.Account) { set(a, ts.Allowed); set(a, ts.Unlisted) }, true, false},
		{"forgotten", true, trim, false, false},
		{"the operator's label, forgotten", false, trim, true, false},
	} {
		a := account()
		e.refuse(t, a)
		if !e.setLabel(t, a, ts.Label{Text: "anna@example.org", FromProfile: c.fromProfile}) {
			t.Errorf("%s: not labelled", c.name)
		}
		c.then(a)
		if got := e.label(t, a).Text != ""; got != c.kept {
			t.Errorf("%s: label kept: %v", c.name, got)
		}
		refused, err := e.Store.Refused(ctx, ts.MaxRefused)
		must(t, err)
		if got := slices.ContainsFunc(refused, func(r ts.Refused) bool { return r.FxAUID == a.FxAUID }); got != c.refused {
			t.Errorf("%s: refused: %v", c.name, got)
		}
	}
}

func testFindLabels(t *testing.T, e env) {
	ctx := t.Context()
	e.addNode(t, "https://a.example")
	texts := []string{"anna", "Anna", "ANNABEL", "an%", "an_a", "bert", "Ä", "ä b", "z", "ann"}
	users := map[string]ts.User{}
	for i, text := range texts {
		a := ts.Account{FxAUID: fmt.Sprintf("%032x", len(texts)-i), Domain: "zz.example"}
		e.setLabel(t, a, ts.Label{Text: text})
		if i%2 == 0 {
			e.signIn(t, a, signIn(7, "aa", 5))
			users[a.FxAUID] = e.signIn(t, a, signIn(8, "bb", 8))
		}
	}
	find := func(prefix string, limit int) (found []string) {
		t.Helper()
		for f := (ts.FindLabels{Prefix: prefix, Domain: "zz.example", Limit: limit}); len(found) <= len(texts); {
			page, err := e.Store.FindLabels(ctx, f)
			must(t, err)
			for _, l := range page {
				if found = append(found, l.Text); l.User != users[l.FxAUID] {
					t.Errorf("%s: %+v, want %+v", l.Text, l.User, users[l.FxAUID])
				}
			}
			if len(page) < limit {
				break
			}
			f.After = page[len(page)-1].Label
		}
		return found
	}
	for prefix, want := range map[string]string{
		"an": "an% an_a ann Anna anna ANNABEL", "ANN": "ann Anna anna ANNABEL", "an%": "an%", "an_": "an_a", "ä": "Ä,ä b", "b": "bert", "c": "", "annabel!": "",
	} {
		for _, limit := range []int{1, 2, 100} {
			if got := find(prefix, limit); strings.Join(got, " ") != strings.ReplaceAll(want, ",", " ") {
				t.Errorf("%s in pages of %d: %q, want %s", prefix, limit, got, want)
			}
		}
	}
	for _, prefix := range []string{"", "a\x00", "\xff", "a\n", strings.Repeat("a", 10_000)} {
		if _, err := e.Store.FindLabels(ctx, ts.FindLabels{Prefix: prefix, Domain: "zz.example", Limit: 10}); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%.20q: %v", prefix, err)
		}
	}
}

func testRandomLabels(t *testing.T, e env) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &labelModel{env: e, t: t, prefix: account().FxAUID, want: map[string]ts.Label{}, rows: map[string][]ts.User{}}
		for range 3 {
			m.accounts = append(m.accounts, ts.Account{FxAUID: account().FxAUID, Domain: m.prefix + ".example"})
		}
		text := rapid.Map(rapid.StringMatching(`[aAbB%_ä]{0,3}`), func(s string) string { return m.prefix + s })
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"label":   func(rt *rapid.T) { m.set(rt, ts.Label{Text: text.Draw(rt, "text"), SetAt: 1}) },
			"remove":  func(rt *rapid.T) { m.set(rt, ts.Label{}) },
			"profile": func(rt *rapid.T) { m.set(rt, ts.Label{Text: text.Draw(rt, "text"), FromProfile: true, SetAt: 2}) },
			"sign in": func(rt *rapid.T) {
				a := m.pick(rt)
				_, _ = m.Store.SignIn(t.Context(), a, signIn(7, "aa", 5))
				m.read(rt, a)
			},
			"delete":  m.delete,
			"replace": m.replace,
			"forget":  m.forget,
		})
	})
}

type labelModel struct {
	env
	t        *testing.T
	accounts []ts.Account
	prefix   string
	want     map[string]ts.Label
	rows     map[string][]ts.User
}

func (m *labelModel) pick(rt *rapid.T) ts.Account {
	return rapid.SampledFrom(m.accounts).Draw(rt, "account")
}

func (m *labelModel) isCurrent(fxaUID string) bool {
	return slices.ContainsFunc(m.rows[fxaUID], func(u ts.User) bool { return !u.Replaced })
}

func (m *labelModel) read(rt *rapid.T, a ts.Account) {
	st, err := m.Store.AccountState(m.t.Context(), a)
	suite.Must(rt, "AccountState", err)
	m.rows[a.FxAUID] = st.Users
}

func (m *labelModel) set(rt *rapid.T, l ts.Label) {
	a := m.pick(rt)
	l.FxAUID = a.FxAUID
	was, labelled := m.want[a.FxAUID]
	may := !l.FromProfile || m.isCurrent(a.FxAUID) && (!labelled || was.FromProfile)
	done, err := m.Store.SetLabel(m.t.Context(), a, l)
	if err != nil || done != may {
		rt.Fatalf("set %+v on %+v: %v, %v", l, was, done, err)
	}
	switch {
	case !may:
	case l.Text == "":
		delete(m.want, a.FxAUID)
	default:
		m.want[a.FxAUID] = l
	}
}

func (m *labelModel) delete(rt *rapid.T) {
	a := m.pick(rt)
	_, err := m.Store.Delete(m.t.Context(), a, t0)
	suite.Must(rt, "Delete", err)
	delete(m.want, a.FxAUID)
	m.read(rt, a)
}

func (m *labelModel) replace(rt *rapid.T) {
	a, retire := m.pick(rt), rapid.Bool().Draw(rt, "retire")
	_, err := m.Store.Replace(m.t.Context(), a, t0, retire)
	suite.Must(rt, "Replace", err)
	if retire {
		delete(m.want, a.FxAUID)
	}
	m.read(rt, a)
}

func (m *labelModel) forget(rt *rapid.T) {
	a := m.pick(rt)
	rows := m.rows[a.FxAUID]
	if len(rows) == 0 {
		return
	}
	u := rapid.SampledFrom(rows).Draw(rt, "row")
	suite.Must(rt, "Forget", m.Store.Forget(m.t.Context(), u.UID))
	if u.Replaced && len(rows) == 1 {
		delete(m.want, a.FxAUID)
	}
	m.read(rt, a)
}

func (m *labelModel) check(rt *rapid.T) {
	var ids []string
	for _, a := range m.accounts {
		ids = append(ids, a.FxAUID)
	}
	got, err := m.Store.LabelsOf(m.t.Context(), ids)
	suite.Must(rt, "LabelsOf", err)
	suite.Equal(rt, "labels", got, m.want)
	found, err := m.Store.FindLabels(m.t.Context(), ts.FindLabels{Prefix: strings.ToUpper(m.prefix), Domain: m.accounts[0].Domain, Limit: 10})
	suite.Must(rt, "FindLabels", err)
	var labels []ts.Label
	for _, l := range found {
		if labels = append(labels, l.Label); (l.User.UID != 0) != m.isCurrent(l.FxAUID) || l.User.Replaced {
			rt.Fatalf("found %+v", l)
		}
	}
	suite.Equal(rt, "labels in order", labels, slices.SortedFunc(maps.Values(m.want), func(a, b ts.Label) int {
		return cmp.Or(cmp.Compare(a.Key(), b.Key()), cmp.Compare(a.FxAUID, b.FxAUID))
	}))
}
