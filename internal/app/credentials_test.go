package app_test

import (
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/db/rows"
)

// notCredentials are changes that no Credential names, by the reason why an operator need not
// check them after a restore to an older state. A new operation must be added here, or to its service's Credentials.
var notCredentials = map[string]string{
	"it gives a right, or makes something: after a restore it is missing, which its user notices": `buckets/accounts/create buckets/buckets/create
		buckets/keys/create buckets/tokens/create buckets/nodes/add ext/service-tokens/create ext/tokens/create ext/tenants/restore ext/installs/restore
		ext/installs/import ext/records/put buckets/objects/put guest/keys/add guest/tenant-keys/create guest/tenants/reinstate tokenserver/access/allow tokenserver/nodes/add tokenserver/nodes/undo
		sync/tokens/create buckets/imports/run guest/tokens/create
		tokenserver/accounts/import tokenserver/users/import`,
	"the restore revokes all handoff keys": `guest/keys/activate guest/keys/retire guest/keys/revoke guest/keys/revoke-all guest/keys/rotate
		guest/tenant-keys/revoke guest/tenant-keys/rotate`,
	"it protects nothing: an old state is only old": `buckets/lifecycle/clear buckets/lifecycle/delete buckets/lifecycle/set buckets/notifications/delete
		buckets/notifications/set buckets/buckets/set-versioning buckets/uploads/abort buckets/nodes/drain buckets/names/free buckets/buckets/accept-import
		ext/schemas/activate ext/schemas/delete ext/schemas/delete-all ext/schemas/deprecate ext/schemas/put tokenserver/accounts/label tokenserver/nodes/drain
		sync/comparisons/run sync/comparisons/stop`,
	"it works on what there is": `sync/runs/stop ext/runs/stop buckets/runs/stop buckets/audits/run buckets/lifecycle/run ext/usage/audit guest/jobs/run guest/jobs/run-all guest/events/replay
		buckets/dead-letters/retry buckets/dead-letters/retry-all buckets/dead-letters/drop buckets/dead-letters/drop-all ext/dead-letters/retry ext/dead-letters/retry-all
		ext/dead-letters/drop ext/dead-letters/drop-all guest/dead-letters/retry guest/dead-letters/retry-all guest/dead-letters/drop guest/dead-letters/drop-all`,
}

// TestCredentialsAfterRestore walks each service's changes: each is named by a Credential, which holdfast restore
// lists, or has a reason.
func TestCredentialsAfterRestore(t *testing.T) {
	t.Parallel()
	reasons := map[string]bool{}
	for _, names := range notCredentials {
		for name := range strings.FieldsSeq(names) {
			reasons[name] = true
		}
	}
	for _, s := range app.Services() {
		named := map[string]bool{}
		for _, c := range s.Credentials {
			if c.Table != "" && !slices.ContainsFunc(s.Tables, func(g rows.Group) bool {
				return slices.ContainsFunc(g.Tables, func(t *rows.Table) bool { return t.Name == c.Table })
			}) {
				t.Errorf("%s: %s: there is no table %s", s.Name, c.Of, c.Table)
			}
			for _, path := range c.Again {
				named[path] = true
			}
		}
		for _, o := range s.Operations {
			name := s.CommandName() + "/" + o.Path
			if !o.Kind.Changes() {
				continue
			}
			if named[o.Path] == reasons[name] {
				t.Errorf("%s: name it in a Credential of the service, or in notCredentials with a reason", name)
			}
			delete(named, o.Path)
			delete(reasons, name)
		}
		for path := range named {
			t.Errorf("%s: a Credential names %s, which is no change", s.Name, path)
		}
	}
	for name := range reasons {
		t.Errorf("notCredentials has %s, which is no change", name)
	}
}
