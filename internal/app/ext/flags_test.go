package ext_test

import (
	"strings"
	"testing"
)

// TestFlagsRefused: what would make a token or a registration of no use is an error
// that says what to type.
func TestFlagsRefused(t *testing.T) {
	t.Parallel()
	someInstall := owned(1, 1)
	onEachEngine(t, func(t *testing.T, p operator) {
		o := []string{"--tenant", string(someInstall.Tenant), "--install", string(someInstall.Install)}
		for _, tc := range []struct {
			args []string
			says string
		}{
			{[]string{"ext", "token", "--namespace", "settings"}, "--namespace settings: the access is missing: use settings=r, settings=w or settings=rw"},
			{[]string{"ext", "token", "--namespace", "settings="}, "the access is missing"},
			{[]string{"ext", "token", "--namespace", "log=r", "--namespace", "settings"}, "--namespace settings: the access is missing"},
			{[]string{"ext", "token", "--namespace", "=rw"}, "--namespace: the namespace"},
			{[]string{"ext", "install", "set", "--namespace", "settings"}, "the access is missing"},
			{[]string{"ext", "install", "set", "--bytes", "0"}, "--bytes 0: must be 1 or more"},
			{[]string{"ext", "install", "set", "--keys", "-1"}, "--keys -1: must be 1 or more"},
			{[]string{"ext", "install", "set", "--namespaces", "0"}, "--namespaces 0: must be 1 or more"},
			{[]string{"ext", "install", "set", "--bytes", "1", "--until", "2020-01-01T00:00:00Z"}, "must be in the future"},
			{[]string{"ext", "install", "set", "--until", "2020-01-01T00:00:00Z"}, "must be in the future"},
		} {
			if status, out, errs := p.types(append(tc.args, o...)...); status != 1 || out != "" || !strings.Contains(errs, tc.says) {
				t.Errorf("%v: status %d, %q, %q", tc.args, status, out, errs)
			}
		}
		out := strings.Join(p.prints(append([]string{"ext", "install", "set", "--namespace", "settings=", "--bytes", "1"}, o...)...), "\n")
		if !strings.Contains(out, "namespaces") || !strings.Contains(out, "settings=\n") || !strings.Contains(out, "1 bytes") {
			t.Errorf("registered is %s", out)
		}
	})
}
