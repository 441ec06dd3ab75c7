package ext_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	ext "holdfast/internal/extstorage"
)

type minted struct {
	Token, ID string
	Expires   time.Time
}

// mint creates a token; noun is tokens or service-tokens.
func mint(t *testing.T, p operator, noun string, args ...string) (m minted) {
	t.Helper()
	out := p.prints(append([]string{"ext", noun, "create", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(strings.Join(out, "\n")), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRevokeTokenCommand revokes tokens while a server uses the same database.
func TestRevokeTokenCommand(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		o := owned(1, 1)
		flags := []string{"--tenant", string(o.Tenant), "--install", string(o.Install)}
		services := []string{"--tenant", string(o.Tenant)}
		with := func(args []string, more ...string) []string { return append(more, args...) }
		fails := func(says string, args ...string) {
			t.Helper()
			if status, out, errs := p.types(args...); status == 0 || !strings.Contains(errs, says) {
				t.Errorf("%v: status %d, %s%s, want %s", args, status, out, errs, says)
			}
		}
		one := mint(t, p, "tokens", with(flags, "--namespace", "a=rw")...)
		service := mint(t, p, "service-tokens", "--tenant", string(o.Tenant), "--service", "runner")
		if one.ID == "" || one.ID == service.ID {
			t.Fatalf("tokens with the IDs %q and %q", one.ID, service.ID)
		}
		if out := p.prints("ext", "tokens", "revoke", one.Token); !strings.Contains(out[0], "revoked token "+one.ID+"; it expires at ") {
			t.Errorf("revoked: %v", out)
		}
		p.prints("ext", "tokens", "revoke", service.Token)
		p.prints(with(flags, "ext", "tokens", "revoke-id", "--id", "lost")...)
		p.prints(with(services, "ext", "service-tokens", "revoke-id", "--id", "other", "--expires", time.Now().Add(time.Hour).Format(time.RFC3339))...)

		list := func(args []string, want ...string) {
			t.Helper()
			var ids []string
			for _, line := range p.prints(args...)[1:] {
				ids = append(ids, strings.Fields(line)[0])
			}
			slices.Sort(ids)
			slices.Sort(want)
			if !slices.Equal(ids, want) {
				t.Errorf("%v: revoked are %v, want %v", args, ids, want)
			}
		}
		list(with(flags, "ext", "tokens", "list"), one.ID, "lost")
		list(with(services, "ext", "service-tokens", "list"), service.ID, "other")
		list([]string{"ext", "tokens", "list", "--tenant", string(o.Tenant), "--install", string(owned(1, 2).Install)})

		p.prints(with(flags, "ext", "tokens", "revoke-id", "--id", "former")...)
		p.prints(with(services, "ext", "service-tokens", "revoke-id", "--id", "former")...)
		list(with(flags, "ext", "tokens", "list"), one.ID, "lost", "former")
		list(with(services, "ext", "service-tokens", "list"), service.ID, "other", "former")
		all, err := p.records.RevokedTokens(t.Context(), o)
		if err != nil || len(all) != 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		for _, token := range all {
			if token.ID == one.ID && (token.ExpiresAt < ext.At(one.Expires) || token.ExpiresAt > ext.At(one.Expires.Add(time.Minute))) {
				t.Errorf("the entry of a token until %v is kept until %v", one.Expires, token.ExpiresAt.Time())
			}
		}

		fails("TOKEN: must not be empty", "ext", "tokens", "revoke")
		fails("unknown flag --tenant", with(flags, "ext", "tokens", "revoke", one.Token)...)
		fails("need not be revoked", "ext", "tokens", "revoke", one.Token+"x")
		fails("--install is required", "ext", "tokens", "revoke-id", "--tenant", string(o.Tenant), "--id", "a")
		fails("must be in the future", with(flags, "ext", "tokens", "revoke-id", "--id", "a", "--expires", "2020-01-01T00:00:00Z")...)
		fails("--expires: expected a time, e.g.", with(flags, "ext", "tokens", "revoke-id", "--id", "a", "--expires", "soon")...)
		fails("--ttl: must be from 1s to 90d, the setting extstorage.token_max_lifetime",
			with(flags, "ext", "tokens", "create", "--namespace", "a=rw", "--ttl", "2160h1s")...)
		mint(t, p, "tokens", with(flags, "--namespace", "a=rw", "--ttl", "2160h")...)
	})
}
