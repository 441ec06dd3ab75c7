package tokenserver

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"holdfast/internal/tokenserver"
)

// refuse makes sign-ins that are refused and recorded, and labels their accounts.
func (o *operator) refuse(labels map[string]string) {
	o.t.Helper()
	c := *o.opened.Config()
	c.AllowNewUsers = false
	o.opened.Reload(c)
	for id, label := range labels {
		_, err := o.opened.SignIn(o.t.Context(), tokenserver.Request{Identity: tokenserver.Identity{FxAUID: id}})
		if !errors.Is(err, &tokenserver.Refusal{Reason: tokenserver.NotAdmitted}) {
			o.t.Fatal(err)
		}
		account, err := o.opened.ParseAccount(id)
		if err == nil {
			err = o.opened.SetLabel(o.t.Context(), account, label)
		}
		if err != nil {
			o.t.Fatal(err)
		}
	}
}

// TestNamesOfAccounts allows, denies, labels and shows accounts by the beginning of their ID, as lists show it, and by
// their label. The label of a refused sign-in stays.
func TestNamesOfAccounts(t *testing.T) {
	t.Parallel()
	o := newOperator(t, &usedStorage{})
	const anna, bert, carl = "abcd0000000000000000000000000000", "abcd1111000000000000000000000000", "beef0000000000000000000000000000"
	o.refuse(map[string]string{anna: "anna@example.org", bert: "family@example.org", carl: "Family@example.org"})
	change := func(status int, name, verb string, parts ...string) {
		t.Helper()
		o.send(status, http.MethodPost, "access/"+url.PathEscape(name)+"/"+verb, "", parts...)
	}
	change(422, "abcd", "allow", "means several accounts: give more digits of one of "+anna+", "+bert)
	change(422, "FAMILY@example.org", "allow", "means several accounts", bert, carl)
	for _, name := range []string{"abc", "abcd2", "abcd0000-", "anna@example.or", "anna@example.orgg", "ab d0", strings.Repeat("a", 33), "%", "…", "abcd\x00"} {
		change(422, name, "allow", "no account here begins with this ID or has this label: expected 32 hexadecimal digits")
	}
	o.send(200, http.MethodGet, "access", "", `"accounts":[]`)
	for name, id := range map[string]string{"Anna@Example.org": anna, "abcd1": bert, "BEEF0000…": carl, "abcd0": anna, bert + "@" + o.opened.Config().FxAEmailDomain: bert} {
		change(200, name, "allow", `"account":"`+id+`"`, `"access":"allow"`)
	}
	change(200, "anna@example.org", "deny", `{"account":"`+anna+`","label":"anna@example.org","access":"deny"}`)
	o.send(200, http.MethodGet, "access", "", `{"label":"anna@example.org","account":"`+anna+`","access":"deny"`, `{"label":"Family@example.org","account":"`+carl+`","access":"allow"`)
	o.send(200, http.MethodGet, "refused", "", `{"accounts":[]}`)
	o.send(200, http.MethodGet, "accounts/abcd0", "", anna, `"access":"deny"`)
	o.send(200, http.MethodPost, "accounts/abcd0/label", `{"label":"abcd1"}`, anna)
	change(422, "abcd1", "deny", "means several accounts", anna, bert) // a label like the beginning of another ID
	o.send(422, http.MethodGet, "accounts/abcd1", "", "means several accounts")
	change(200, "abcd0", "remove", anna, `"access":"unlisted"`)
	change(200, "unknown", "remove", `"account":"unknown"`)
	change(200, strings.Repeat("0", 32), "allow", `"access":"allow"`)
}

// TestNamesOfManyAccounts checks that the error lists only some of the accounts.
func TestNamesOfManyAccounts(t *testing.T) {
	t.Parallel()
	o := newOperator(t, &usedStorage{})
	addresses := map[string]string{}
	for _, digit := range "0123456789ab" {
		addresses["abcd"+strings.Repeat(string(digit), 28)] = ""
	}
	o.refuse(addresses)
	text := o.send(422, http.MethodPost, "access/abcd/allow", "", "abcd9999999999999999999999999999 and others")
	if strings.Contains(text, "abcdaaaa") {
		t.Errorf("more than %d accounts in %s", maxNamed, text)
	}
}
