package ext_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestDeadEvents(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, p operator) {
		at, aside := "'2026-11-22 01:02:03Z'", "'2026-11-22 01:04:05Z'"
		if t.Name() == "TestDeadEvents/sqlite" {
			at, aside = "1795309323000000", "1795309445000000"
		}
		o := owned(1, 1)
		for seq := 1; seq <= 4; seq++ {
			p.damage(t, fmt.Sprintf(`INSERT INTO ext_storage_outbox_refused
				(tenant_id, extension_install_id, seq, topic, key, payload, created_at, attempts, reason, refused_at, next_at)
				VALUES ('%s', '%s', %d, 'extstorage.put', 'a/b', '{"n":%[3]d}', %s, 10, 'too large', %s, NULL)`, o.Tenant, o.Install, seq, at, aside))
		}
		lines := p.prints("ext", "dead-letters", "list")
		if len(lines) != 5 || !strings.HasPrefix(lines[0], "TENANT ") ||
			strings.Join(strings.Fields(lines[1]), " ") != string(o.Tenant)+" "+string(o.Install)+` 1 extstorage.put 10 2026-11-22 01:04:05 too large` {
			t.Errorf("listed as\n%s", strings.Join(lines, "\n"))
		}
		var event struct {
			Install, Error string
			Seq            int64
			Payload        map[string]int
		}
		if err := json.Unmarshal([]byte(p.prints("ext", "dead-letters", "list", "--json")[1]), &event); err != nil ||
			event.Install != string(o.Install) || event.Seq != 2 || event.Payload["n"] != 2 || event.Error != "too large" {
			t.Errorf("%+v, %v", event, err)
		}

		one := []string{"--tenant", string(o.Tenant), "--install", string(o.Install), "--seq"}
		for _, c := range []struct {
			args   []string
			status int
			errs   string
		}{
			{append([]string{"ext", "dead-letters", "retry"}, append(one, "2")...), 0, ""},
			{append([]string{"ext", "dead-letters", "retry"}, append(one, "2")...), 1, "no such set-aside event"},
			{append([]string{"ext", "dead-letters", "drop"}, append(one, "3")...), 0, ""},
			{append([]string{"ext", "dead-letters", "drop"}, append(one, "9")...), 1, "no such set-aside event"},
			{[]string{"ext", "dead-letters", "drop", "--seq", "1"}, 2, "tenant"},
			{[]string{"ext", "dead-letters", "drop"}, 2, "--tenant, --install and --seq are required"},
			{append([]string{"ext", "dead-letters", "drop-all"}, append(one, "1")...), 2, "tenant"},
		} {
			status, _, errs := p.types(c.args...)
			if (status != 0) != (c.status != 0) || !strings.Contains(errs, c.errs) {
				t.Errorf("%v: %d, %q", c.args, status, errs)
			}
		}
		if lines := p.prints("ext", "dead-letters", "retry-all"); len(lines) != 1 || lines[0] != "2 events queued again" {
			t.Errorf("printed %q", lines)
		}
		if lines := p.prints("ext", "dead-letters", "list"); len(lines) != 1 {
			t.Errorf("left are\n%s", strings.Join(lines, "\n"))
		}
	})
}
