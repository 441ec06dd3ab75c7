package ext_test

import (
	"strings"
	"testing"
)

// TestFlagsRefused checks that flags for a useless token or registration cause errors that say how to fix them.
func TestFlagsRefused(t *testing.T) {
	t.Parallel()
	someInstall := owned(1, 1)
	onEachEngine(t, func(t *testing.T, p operator) {
		o := []string{"--tenant", string(someInstall.Tenant), "--install", string(someInstall.Install)}
		for _, tc := range []struct {
			args   []string
			status int
			says   string
		}{
			{[]string{"ext", "tokens", "create", "--namespace", "settings"}, 2, "--namespace: settings: access is missing: expected settings=r, settings=w or settings=rw"},
			{[]string{"ext", "tokens", "create", "--namespace", "settings="}, 2, "access is missing"},
			{[]string{"ext", "tokens", "create", "--namespace", "log=r", "--namespace", "settings"}, 2, "--namespace: settings: access is missing"},
			{[]string{"ext", "tokens", "create", "--namespace", "settings=x"}, 2, "--namespace: settings=x: access must be r, w or rw"},
			{[]string{"ext", "tokens", "create", "--namespace", "=rw"}, 2, "--namespace: =rw: must be 1 to 64 characters"},
			{[]string{"ext", "tokens", "create"}, 2, "--namespace: required: expected at least one namespace, e.g. settings=rw"},
			{[]string{"ext", "installs", "set", "--namespace", "settings"}, 2, "--namespace: settings: access is missing"},
			{[]string{"ext", "installs", "set", "--bytes", "0"}, 2, "--bytes: must be at least 1"},
			{[]string{"ext", "installs", "set", "--keys", "-1"}, 2, "--keys: must be at least 1"},
			{[]string{"ext", "installs", "set", "--namespaces", "0"}, 2, "--namespaces: must be at least 1"},
			{[]string{"ext", "installs", "set", "--bytes", "1", "--until", "2020-01-01T00:00:00Z"}, 2, "--until: must be in the future"},
			{[]string{"ext", "installs", "set", "--until", "2020-01-01T00:00:00Z"}, 2, "--until: must be in the future"},
			{[]string{"ext", "installs", "set", "--until", "2099-01-01T00:00:00Z", "--bytes", "1"}, 2, "--until: must be at most 14 days in the future"},
			{[]string{"ext", "installs", "set", "--until", "soon"}, 2, "--until: expected a time, e.g."},
			{[]string{"ext", "installs", "set", "--tier", "none"}, 2, "--tier: must be a tier from the setting extstorage.tiers, or empty"},
			{[]string{"ext", "installs", "set", "--tier", ""}, 2, "--tier: must not be empty"},
		} {
			if status, out, errs := p.types(append(tc.args, o...)...); status != tc.status || out != "" || !strings.Contains(errs, tc.says) {
				t.Errorf("%v: status %d, %q, %q", tc.args, status, out, errs)
			}
		}
		out := strings.Join(p.prints(append([]string{"ext", "installs", "set", "--namespace", "settings=", "--bytes", "1"}, o...)...), "\n")
		if !strings.Contains(out, "settings=\n") || !strings.Contains(out, "1 byte,") {
			t.Errorf("registered is %s", out)
		}
	})
}
