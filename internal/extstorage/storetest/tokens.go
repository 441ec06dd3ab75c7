package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/testdb"
)

func tokenChecks() []check {
	return []check{
		{"Revoke", revokeToken},
		{"RevokeAgain", revokeTokenAgain},
		{"Expiry", revokedTokenExpires},
		{"Services", revokeOfServices},
		{"Unregistered", revokeUnregistered},
		{"Text", tokenText},
		{"Together", revokeTogether},
		{"ZeroOwner", tokenZeroOwner},
	}
}

func (u *user) revokeToken(id string, expires ext.Moment) {
	u.t.Helper()
	must(u.t, "RevokeToken", u.h.Tokens.RevokeToken(u.t.Context(), u.owner, ext.RevokedToken{ID: id, ExpiresAt: expires, RevokedAt: u.now}))
}

func (u *user) revoked() []string {
	u.t.Helper()
	_, ids, err := u.h.Installs.InstallState(u.t.Context(), u.owner, u.now)
	must(u.t, "InstallState", err)
	var listed []string
	for _, token := range u.revokedTokens() {
		listed = append(listed, token.ID)
	}
	equal(u.t, "the list", listed, ids)
	return ids
}

func (u *user) revokedTokens() []ext.RevokedToken {
	u.t.Helper()
	all, err := u.h.Tokens.RevokedTokens(u.t.Context(), u.owner, u.now)
	must(u.t, "RevokedTokens", err)
	return all
}

func revokeToken(t *testing.T, u *user) {
	v := u.other()
	v.owner.Tenant = u.owner.Tenant
	gold := ext.Registration{Tier: "gold", Namespaces: map[ext.Namespace]ext.Access{"s": ext.Read}}
	u.setInstall(gold, false)
	equal(t, "at first", u.revoked(), []string(nil))
	u.revokeToken("b", u.now+hour)
	u.now += second
	u.revokeToken("a", u.now+day)
	equal(t, "revoked", u.revokedTokens(), []ext.RevokedToken{
		{ID: "a", ExpiresAt: u.now + day, RevokedAt: u.now}, {ID: "b", ExpiresAt: t0 + hour, RevokedAt: t0},
	})
	equal(t, "revoked", u.revoked(), []string{"a", "b"})
	in, _, err := u.h.Installs.InstallState(t.Context(), u.owner, u.now)
	must(t, "InstallState", err)
	u.wantInstall(in)
	equal(t, "of another install", v.revoked(), []string(nil))
}

func revokeTokenAgain(t *testing.T, u *user) {
	u.revokeToken("a", u.now+hour)
	first := u.now
	u.now += second
	u.revokeToken("a", u.now+minute)
	equal(t, "until earlier", u.revokedTokens(), []ext.RevokedToken{{ID: "a", ExpiresAt: first + hour, RevokedAt: first}})
	u.revokeToken("a", u.now+day)
	equal(t, "until later", u.revokedTokens(), []ext.RevokedToken{{ID: "a", ExpiresAt: u.now + day, RevokedAt: first}})
}

func revokedTokenExpires(t *testing.T, u *user) {
	u.revokeToken("a", u.now+10)
	u.now += 9
	equal(t, "before", u.revoked(), []string{"a"})
	u.now++
	equal(t, "at its expiry", u.revoked(), []string(nil))
}

func revokeOfServices(t *testing.T, u *user) {
	services := *u
	services.owner = ext.Services(u.owner.Tenant)
	services.revokeToken("a", u.now+hour)
	u.revokeToken("b", u.now+hour)
	equal(t, "of services", services.revoked(), []string{"a"})
	equal(t, "of the install", u.revoked(), []string{"b"})
	v := u.other()
	v.owner = ext.Services(v.owner.Tenant)
	equal(t, "of another tenant", v.revoked(), []string(nil))
}

func revokeUnregistered(t *testing.T, u *user) {
	u.revokeToken("a", u.now+hour)
	in, revoked, err := u.h.Installs.InstallState(t.Context(), u.owner, u.now)
	must(t, "InstallState", err)
	equal(t, "the install", in, ext.Install{})
	equal(t, "revoked", revoked, []string{"a"})
	_, err = u.h.Installs.Install(t.Context(), u.owner)
	wantError(t, "Install", err, ext.ErrNoInstall)
	u.revoke()
	in, _, err = u.h.Installs.InstallState(t.Context(), u.owner, u.now)
	must(t, "InstallState", err)
	equal(t, "revoked at", in.RevokedAt, u.now)
}

func tokenText(t *testing.T, u *user) {
	want := []string{" ", "'", "A", "\\", "a", "a ", `{"a",b}`, strings.Repeat("\u00e9", ext.MaxTokenID/2), "\U0001f512"}
	for i := range want {
		u.revokeToken(want[len(want)-1-i], u.now+hour)
	}
	equal(t, "revoked", u.revoked(), want)
}

func revokeTogether(t *testing.T, u *user) {
	errs := testdb.Concurrently(parallel, func(i int) error {
		return errors.Join(
			u.h.Tokens.RevokeToken(t.Context(), u.owner, ext.RevokedToken{ID: "all", ExpiresAt: u.now + hour, RevokedAt: u.now}),
			u.h.Tokens.RevokeToken(t.Context(), u.owner, ext.RevokedToken{ID: fmt.Sprint("of ", i), ExpiresAt: u.now + hour, RevokedAt: u.now}),
		)
	})
	must(t, "together", errors.Join(errs...))
	equal(t, "revoked", len(u.revoked()), 1+parallel)
}

func tokenZeroOwner(t *testing.T, u *user) {
	for _, o := range []ext.Owner{{}, {Tenant: u.owner.Tenant}, {Install: u.owner.Install}} {
		_, _, err := u.h.Installs.InstallState(t.Context(), o, u.now)
		_, listed := u.h.Tokens.RevokedTokens(t.Context(), o, u.now)
		revoked := u.h.Tokens.RevokeToken(t.Context(), o, ext.RevokedToken{ID: "a", ExpiresAt: u.now + hour, RevokedAt: u.now})
		for what, err := range map[string]error{"InstallState": err, "RevokedTokens": listed, "RevokeToken": revoked} {
			wantCode(t, what, err, errcode.Denied)
		}
	}
}

func tokenMethods() []method {
	return []method{
		{"RevokeToken", true, func(ctx context.Context, u *user) error {
			return u.h.Tokens.RevokeToken(ctx, u.owner, ext.RevokedToken{ID: "a", ExpiresAt: u.now + hour, RevokedAt: u.now})
		}},
		{"RevokedTokens", false, func(ctx context.Context, u *user) error {
			_, err := u.h.Tokens.RevokedTokens(ctx, u.owner, u.now)
			return err
		}},
		{"InstallState", false, func(ctx context.Context, u *user) error {
			_, _, err := u.h.Installs.InstallState(ctx, u.owner, u.now)
			return err
		}},
	}
}
