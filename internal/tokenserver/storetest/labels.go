package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"holdfast/internal/errcode"
	"holdfast/internal/suite"
	ts "holdfast/internal/tokenserver"
)

// label returns the label of an account, or the zero value.
func (e env) label(t testing.TB, a ts.Account) ts.Label {
	t.Helper()
	labels, err := e.Store.LabelsOf(t.Context(), []string{a.FxAUID, "another"})
	must(t, err)
	return labels[a.FxAUID]
}

// setLabel sets a label and returns whether the store did.
func (e env) setLabel(t testing.TB, a ts.Account, l ts.Label) bool {
	t.Helper()
	l.FxAUID = a.FxAUID
	set, err := e.Store.SetLabel(t.Context(), a, l)
	must(t, err)
	return set
}

// testLabel: an operator labels any account, and the accounts server one that has signed in and has no label of the operator.
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

// testLabelGoes: a label is deleted with its account, at once or with the last row.
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

// testFindLabels: labels are found by their beginning in any case, in pages, with the current row of the account.
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

// testRandomLabels compares labels of some accounts with a map, whatever operators, accounts servers and cleanups do.
func testRandomLabels(t *testing.T, e env) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx, domain := t.Context(), account().FxAUID+".example" // so that a walk finds its own rows only
		accounts, want, prefix := []ts.Account{}, map[string]ts.Label{}, account().FxAUID
		rows := map[string][]ts.User{} // by account, those that are not forgotten
		for range 3 {
			accounts = append(accounts, ts.Account{FxAUID: account().FxAUID, Domain: domain})
		}
		pick := func(rt *rapid.T) ts.Account { return rapid.SampledFrom(accounts).Draw(rt, "account") }
		current := func(a ts.Account) bool {
			return slices.ContainsFunc(rows[a.FxAUID], func(u ts.User) bool { return !u.Replaced })
		}
		text := rapid.Map(rapid.StringMatching(`[aAbB%_ä]{0,3}`), func(s string) string { return prefix + s })
		set := func(rt *rapid.T, l ts.Label) {
			a := pick(rt)
			l.FxAUID = a.FxAUID
			was, labelled := want[a.FxAUID]
			may := !l.FromProfile || current(a) && (!labelled || was.FromProfile)
			done, err := e.Store.SetLabel(ctx, a, l)
			if err != nil || done != may {
				rt.Fatalf("set %+v on %+v: %v, %v", l, was, done, err)
			}
			switch {
			case !may:
			case l.Text == "":
				delete(want, a.FxAUID)
			default:
				want[a.FxAUID] = l
			}
		}
		read := func(a ts.Account) {
			st, err := e.Store.AccountState(ctx, a)
			suite.Must(rt, "AccountState", err)
			rows[a.FxAUID] = st.Users
		}
		rt.Repeat(map[string]func(*rapid.T){
			"label":   func(rt *rapid.T) { set(rt, ts.Label{Text: text.Draw(rt, "text"), SetAt: 1}) },
			"remove":  func(rt *rapid.T) { set(rt, ts.Label{}) },
			"profile": func(rt *rapid.T) { set(rt, ts.Label{Text: text.Draw(rt, "text"), FromProfile: true, SetAt: 2}) },
			"sign in": func(rt *rapid.T) {
				a := pick(rt)
				_, _ = e.Store.SignIn(ctx, a, signIn(7, "aa", 5)) // refused if it is retired
				read(a)
			},
			"delete": func(rt *rapid.T) {
				a := pick(rt)
				_, err := e.Store.Delete(ctx, a, t0)
				suite.Must(rt, "Delete", err)
				delete(want, a.FxAUID)
				read(a)
			},
			"replace": func(rt *rapid.T) {
				a, retire := pick(rt), rapid.Bool().Draw(rt, "retire")
				_, err := e.Store.Replace(ctx, a, t0, retire)
				suite.Must(rt, "Replace", err)
				if retire {
					delete(want, a.FxAUID)
				}
				read(a)
			},
			"forget": func(rt *rapid.T) {
				a := pick(rt)
				if len(rows[a.FxAUID]) == 0 {
					return
				}
				u := rapid.SampledFrom(rows[a.FxAUID]).Draw(rt, "row")
				suite.Must(rt, "Forget", e.Store.Forget(ctx, u.UID))
				if u.Replaced && len(rows[a.FxAUID]) == 1 {
					delete(want, a.FxAUID)
				}
				read(a)
			},
			"": func(rt *rapid.T) {
				var ids []string
				var sorted []ts.Label
				for _, a := range accounts {
					ids = append(ids, a.FxAUID)
				}
				got, err := e.Store.LabelsOf(ctx, ids)
				suite.Must(rt, "LabelsOf", err)
				suite.Equal(rt, "labels", got, want)
				for _, l := range want {
					sorted = append(sorted, l)
				}
				slices.SortFunc(sorted, func(a, b ts.Label) int { return cmp.Or(cmp.Compare(a.Key(), b.Key()), cmp.Compare(a.FxAUID, b.FxAUID)) })
				found, err := e.Store.FindLabels(ctx, ts.FindLabels{Prefix: strings.ToUpper(prefix), Domain: domain, Limit: 10})
				suite.Must(rt, "FindLabels", err)
				var labels []ts.Label
				for _, l := range found {
					if labels = append(labels, l.Label); (l.User.UID != 0) != current(ts.Account{FxAUID: l.FxAUID}) || l.User.Replaced {
						rt.Fatalf("found %+v", l)
					}
				}
				suite.Equal(rt, "labels in order", labels, sorted)
			},
		})
	})
}
