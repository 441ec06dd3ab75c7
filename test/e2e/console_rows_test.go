package e2e

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

const (
	manyRows  = 1_000_000
	pageGoal  = 200 * time.Millisecond // median limit on an idle machine
	pageTimes = 5

	// mostRecords is the default limit for an install, whose page counts its records. This install has manyRows.
	mostRecords = 32 * 5120

	// baselinePage reads no table. On a busy machine, other pages may exceed pageGoal by the same factor as this page
	// exceeds baselineTime.
	baselinePage = "settings"
	baselineTime = time.Millisecond // on an idle machine
)

// TestConsoleManyRows opens every console page with a million rows per table: lists, next pages, orders, filters and
// searches.
func TestConsoleManyRows(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it fills 30 tables with a million rows each, which takes 10 minutes")
	t.Run("SQLite", func(t *testing.T) {
		data := testdb.SQLite(t)
		manyRowsOn(t, liteRows{data}, data)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		database, data := testdb.PostgresDatabase(t), t.TempDir()
		vars := []string{"SYNC_MASTER_SECRET=shared"}
		for _, name := range []string{"SYNCSTORAGE", "TOKENSERVER", "EXTSTORAGE", "BUCKETS", "GUEST"} {
			vars = append(vars, "HOLDFAST_"+name+"__DATABASE_URL="+database)
		}
		manyRowsOn(t, postgresRows{database}, data, vars...)
	})
}

type rowsEngine interface {
	name() string
	macros(now int64) *strings.Replacer
	run(t *testing.T, service, statement string)
	end(t *testing.T)
}

type liteRows struct{ data string }

func (liteRows) name() string { return "sqlite" }

func (liteRows) macros(now int64) *strings.Replacer {
	return strings.NewReplacer(
		"$ROWS", fmt.Sprintf("(WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < %d) SELECT n FROM r)", manyRows),
		"$HEX", "printf('%032x', n)", "$26", "printf('%026d', n)", "$SESSION26", "printf('%026d', n / 10)", "$FOLDER", "printf('%02d', (n - 1) / 10000)", "$12", "printf('%012d', n)",
		"$ID", "printf('7e000000-0000-4000-8000-%012d', n)", "$TENANT", "printf('7e000000-0000-4000-8000-%012d', n / 10)", "$UUID", "",
		"$MS", strconv.FormatInt(now, 10)+" - n", "$US", strconv.FormatInt(now*1000, 10)+" - n", "$LATERMS", strconv.FormatInt(now+3_600_000, 10), "$LATER", strconv.FormatInt(now*1000+3_600_000_000, 10),
		"$NOW", strconv.FormatInt(now, 10), "$STAMP", strconv.FormatInt(now, 10)+" - n", "$BYTES", "zeroblob(32)", "$BLOB", "x'61'", "$FALSE", "0", "$TRUE", "1", "$NUMBER", "n % 16", "$SCHEMA_", "bff_consumer_",
		"$PART,", "part,", "$PARTS,", "n % 16,", "$SLOT", "", "$ZERO", "", "$TODAY", "date('now')", "$TENMINUTES", "600000000", "$MD5", "zeroblob(16)",
	)
}

func (e liteRows) run(t *testing.T, service, statement string) {
	t.Helper()
	alter(t, filepath.Join(e.data, service+".db"), statement)
}

func (liteRows) end(*testing.T) {}

type postgresRows struct{ url string }

func (postgresRows) name() string { return "postgres" }

func (postgresRows) macros(now int64) *strings.Replacer {
	at := fmt.Sprintf("to_timestamp(%d / 1000.0)", now)
	return strings.NewReplacer(
		"$ROWS", fmt.Sprintf("generate_series(1, %d) n", manyRows),
		"$HEX", "lpad(to_hex(n), 32, '0')", "$26", "lpad(n::text, 26, '0')", "$SESSION26", "lpad((n / 10)::text, 26, '0')", "$FOLDER", "lpad(((n - 1) / 10000)::text, 2, '0')", "$12", "lpad(n::text, 12, '0')",
		"$ID", "('7e000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid", "$TENANT", "('7e000000-0000-4000-8000-' || lpad((n / 10)::text, 12, '0'))::uuid", "$UUID", "::uuid",
		"$MS", at+" - n * interval '1 millisecond'", "$US", at+" - n * interval '1 microsecond'", "$LATERMS", at+" + interval '1 hour'", "$LATER", at+" + interval '1 hour'",
		"$NOW", strconv.FormatInt(now, 10), "$STAMP", "("+at+" - n * interval '1 millisecond') AT TIME ZONE 'UTC'", "$BYTES", `decode(repeat('00', 32), 'hex')`, "$BLOB", `'\x61'`, "$FALSE", "false", "$TRUE", "true", "$NUMBER", "n % 16", "$SCHEMA_", "bff_consumer.",
		"$PART,", "", "$PARTS,", "", "$SLOT", ", slot", "$ZERO", ", 0", "$TODAY", "current_date", "$TENMINUTES", "interval '10 minutes'", "$MD5", "decode(repeat('00', 16), 'hex')",
	)
}

func (e postgresRows) run(t *testing.T, _, statement string) {
	t.Helper()
	testdb.Script(t, e.url, statement)
}

func (e postgresRows) end(t *testing.T) {
	t.Helper()
	testdb.Script(t, e.url, "VACUUM ANALYZE")
	testdb.Script(t, e.url, "CHECKPOINT")
}

var fills = []struct{ service, statement string }{
	{"tokenserver", `INSERT INTO users (uid, service, email, generation, client_state, created_at, nodeid, keys_changed_at)
		SELECT n + 10, (SELECT id FROM services WHERE service = 'sync-1.5'), $HEX || '@api.accounts.firefox.com', 1, '00', $NOW - n, (SELECT min(id) FROM nodes), 1 FROM $ROWS`},
	{"tokenserver", `UPDATE nodes SET current_load = 1000000`},
	{"tokenserver", `INSERT INTO account_access (fxa_uid, access, note, created_at) SELECT $HEX, 'allow', 'a note', $NOW - n FROM $ROWS`},
	{"tokenserver", `INSERT INTO refused_sign_ins (fxa_uid, first_at, last_at, attempts) SELECT $HEX, $NOW - n, $NOW - n, 1 FROM $ROWS`},
	{"tokenserver", `INSERT INTO account_labels (fxa_uid, label, label_key, source, set_at) SELECT $HEX, 'user' || $12, 'user' || $12, 'operator', $NOW - n FROM $ROWS`},
	{"syncstorage", `INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes) SELECT n + 10, 0, $STAMP, 0, 0 FROM $ROWS`},
	{"syncstorage", `INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes) SELECT n + 10, 7, $STAMP, 1, 1 FROM $ROWS`},
	{"syncstorage", `INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload) SELECT n + 10, 7, 'r', $STAMP, $BLOB FROM $ROWS`},

	{"extstorage", `INSERT INTO ext_storage_usage (tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, updated_at, change_seq)
		SELECT $TENANT, $ID, n, 1, 1, $MS, 1 FROM $ROWS WHERE n > 100`},
	{"extstorage", `INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count) SELECT $TENANT, $ID, 'settings', 1 FROM $ROWS WHERE n > 100`},
	{"extstorage", `INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, overrides, revoked_at, created_at, updated_at)
		SELECT $TENANT, $ID, '', '{}', CASE WHEN n % 10 = 0 THEN $MS END, $MS, $MS FROM $ROWS WHERE n > 100`},
	{"extstorage", `INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, change_seq, created_at, updated_at, value_bytes, metadata_bytes, metadata, value)
		SELECT '` + consoleTenant + `'$UUID, '` + consoleInstall + `'$UUID, 'settings', 'key-' || $12, 1, n + 1, $MS, $MS, 11, 2, '{}', '{"title":1}' FROM $ROWS`},
	{"extstorage", `INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
		SELECT '` + consoleTenant + `'$UUID, '` + consoleInstall + `'$UUID, n + 1, 'put', 'settings', 'key-' || $12, 1, $MS FROM $ROWS`},
	{"extstorage", `UPDATE ext_storage_usage SET keys_count = keys_count + 1000000, bytes_used = bytes_used + 13000000, change_seq = 1000001 WHERE extension_install_id = '` + consoleInstall + `'`},
	{"extstorage", `UPDATE ext_storage_namespaces SET keys_count = keys_count + 1000000 WHERE extension_install_id = '` + consoleInstall + `'`},
	// The maximum is 1,000 per install.
	{"extstorage", `INSERT INTO ext_storage_revoked_tokens (tenant_id, extension_install_id, token_id, expires_at, revoked_at)
		SELECT '` + consoleTenant + `'$UUID, $ID, $HEX, $LATERMS, $MS FROM $ROWS WHERE n > 1000`},
	{"extstorage", `INSERT INTO ext_storage_revoked_tokens (tenant_id, extension_install_id, token_id, expires_at, revoked_at)
		SELECT '` + consoleTenant + `'$UUID, '` + consoleInstall + `'$UUID, $HEX, $LATERMS, $MS FROM $ROWS WHERE n <= 1000`},
	{"extstorage", `INSERT INTO ext_storage_outbox_refused (tenant_id, extension_install_id, seq, topic, key, payload, created_at, attempts, reason, refused_at)
		SELECT $TENANT, $ID, 1, 'audit', 'k', '{}', $US, 3, 'refused', $US FROM $ROWS`},
	{"extstorage", `INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, $PART, created_at)
		SELECT $TENANT, $ID, 1000 + n, 'audit', 'k', '{}', $PARTS, $US FROM $ROWS`},

	{"guest", `INSERT INTO $SCHEMA_outbox (id, topic, ordering_key, subject, payload, headers, retention_class, created_at, attempts, last_error, dead_at)
		SELECT 'evt_0' || substr($26, 2), 'wishlist', 'gms_' || $26, 'wishlist.added.v1', '{}', '{}', 'operational', $US, 3, 'refused', $US FROM $ROWS`},
	{"guest", `INSERT INTO $SCHEMA_outbox (id, topic, ordering_key, subject, payload, headers, retention_class, created_at)
		SELECT 'evt_1' || substr($26, 2), 'wishlist', 'gms_' || $26, 'wishlist.added.v1', '{}', '{}', 'operational', $US FROM $ROWS`},
	{"guest", `INSERT INTO $SCHEMA_inbox (source, event_id, subject, received_at, processed_at, digest) SELECT '/tenants', 'evt_' || $26, 'tenant.suspended.v1', $US, $US, $BYTES FROM $ROWS`},
	{"guest", `INSERT INTO $SCHEMA_inbox_quarantine (source, event_id, subject, event_at, digest, body, reason, received_at)
		SELECT '/tenants', 'evt_' || $26, 'tenant.suspended.v1', $US, $BYTES, $BLOB, 'malformed', $US FROM $ROWS`},
	{"guest", `INSERT INTO $SCHEMA_handoff_replay_log (id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale, hmac_key_id,
			fingerprint_hash, ip_hash, minted_at, expires_at)
		SELECT 'bhd_' || $26, 'gms_' || $SESSION26, $TENANT, $ID, '2026-01-02', '2026-01-03', 2, 0, 1, 'EUR', 'en', 'k', $BYTES, $BYTES, $US, $US + $TENMINUTES FROM $ROWS`},
	{"guest", `INSERT INTO $SCHEMA_wishlist_anonymous (id, guest_session_id, tenant_id, property_id, source, added_at)
		SELECT 'wsh_' || $26, 'gms_' || $SESSION26, $TENANT, $ID, 'map', $US FROM $ROWS`},
	{"guest", `INSERT INTO $SCHEMA_bot_score_log (id, guest_session_id, fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at)
		SELECT $26, 'gms_' || $SESSION26, $BYTES, $BYTES, $BYTES, 0.5, 'suspect', '{}', 'challenge', $US FROM $ROWS`},
	{"guest", `INSERT INTO $SCHEMA_tenant_suspended_cache (tenant_id, suspended, suspended_at, reason, last_event_at, last_event_id, refreshed_at)
		SELECT $ID, $TRUE, $US, 'a reason', $US, 'evt_' || $26, $US FROM $ROWS WHERE n <= 10000`}, // every server has a copy
	{"guest", `INSERT INTO $SCHEMA_session_seen (guest_session_id, seen_on) SELECT 'gms_' || $26, $TODAY FROM $ROWS`},
	{"guest", `INSERT INTO $SCHEMA_handoff_refusals (handoff_id, reason, attempts, first_at, last_at) SELECT 'bhd_' || $26, 'expired', 1, $US, $US FROM $ROWS`},

	{"buckets", `INSERT INTO manta_bucket_account (id, name, created, max_objects, max_bytes) SELECT $ID, 'account-' || $12, $US, 0, 0 FROM $ROWS`},
	{"buckets", `INSERT INTO manta_bucket_key (id, account, secret, created) SELECT 'HF' || $26, (SELECT id FROM manta_bucket_account WHERE name = 'main'), $BYTES, $US FROM $ROWS`},
	{"buckets", `INSERT INTO manta_bucket (id, name, owner, created) SELECT $ID, 'bucket-' || $12, (SELECT id FROM manta_bucket_account WHERE name = 'main'), $US FROM $ROWS`},
	{"buckets", `INSERT INTO manta_bucket_usage (owner, bucket_id, objects, bytes$SLOT) SELECT (SELECT id FROM manta_bucket_account WHERE name = 'main'), $ID, 1, 1$ZERO FROM $ROWS`},
	{"buckets", `INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, body)
		SELECT $ID, $FOLDER || '/' || $12, b.owner, b.id, $US, $US, 1, $MD5, 'binary/octet-stream', $BLOB FROM $ROWS, manta_bucket b WHERE b.name = 'pictures'`},
	{"buckets", `INSERT INTO manta_bucket_upload (id, name, owner, bucket_id, created, content_type) SELECT $ID, $FOLDER || '/' || $12, b.owner, b.id, $US, 'image/png' FROM $ROWS, manta_bucket b WHERE b.name = 'pictures'`},
	{"buckets", `INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, deleted_at)
		SELECT $ID, $12, b.owner, b.id, $US, $US, 1, $MD5, $US FROM $ROWS, manta_bucket b WHERE b.name = 'pictures'`},
	{"buckets", `INSERT INTO manta_bucket_damage (node, path, problem, state, first_seen, last_seen, attempts, next_attempt, error, owner, bucket_id, id, name, upload_id, number)
		SELECT 'a:1', $12, 'missing', 'lost', $US, $US, 3, $LATER, 'no copy', '', '', '', $12, '', 0 FROM $ROWS`},
}

// filled lists pages without links: filters and searches.
var filled = []string{
	"tokenserver/accounts?account=00000000000000000000000000000001", "tokenserver/accounts?label=user0000001",
	"search?q=user000000", "search?q=0000000000000000000000000000000", "search?q=7e000000-0000-4000-8000-0000000", "search?q=bucket-0000", "search?q=account-00", "search?q=pictures%2F50",
	"search?q=gms_0000000000000000000000010", "search?q=quota",
	"extstorage/records" + consolePlace + "&prefix=key-0005", "extstorage/records" + consolePlace + "&prefix=none",
	"buckets/objects?account=main&bucket=pictures&prefix=50%2F", "buckets/objects?account=main&bucket=pictures&prefix=50%2F000000500", "buckets/buckets?account=main&prefix=bucket-0005",
	"buckets/uploads?account=main&bucket=pictures", "buckets/object?account=main&bucket=pictures&object=50%2F000000500001",
	"changes?who=admin", "log?text=none",
}

func manyRowsOn(t *testing.T, e rowsEngine, data string, vars ...string) {
	t.Helper()
	vars = append(vars, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__EVENTS=http://127.0.0.1:1/", "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL=http://127.0.0.1:1")
	binary.Migrate(t, data, vars...)
	s := binary.Start(t, data, vars...)
	token := strings.TrimSpace(s.Verb("ext", "tokens", "create", "--tenant", consoleTenant, "--install", consoleInstall, "--namespace", "settings=rw"))
	extension{t, s, consoleInstall, token}.want(http.StatusCreated, http.MethodPut, "/namespaces/settings/records/first", `{"value":{"title":0}}`)
	s3{t, s.S3(t)}.want(http.StatusOK, http.MethodPut, "/pictures", nil)
	s.Kill()
	begun, macros := time.Now(), e.macros(time.Now().UnixMilli())
	for _, f := range fills {
		e.run(t, f.service, macros.Replace(f.statement))
	}
	e.end(t)
	t.Logf("%s: %d tables filled in %v", e.name(), len(fills), time.Since(begun).Round(time.Second))
	s = binary.Start(t, data, vars...)
	walkManyRows(t, s, e.name())
}

type pageTime struct {
	path         string
	median, most time.Duration
	baseline     time.Duration // median time for baselinePage during the measurement
	bytes        int
}

// walkManyRows opens one linked page per path and parameter set, and reports the times.
func walkManyRows(t *testing.T, s *binary.Server, engine string) {
	t.Helper()
	cookie := consoleCookie(t, s)
	var all []pageTime
	queue, seen := append([]string{""}, filled...), map[string]bool{}
	for _, p := range queue {
		seen[kindOfPage(p)] = true
	}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		one, links, ok := timePage(t, s, cookie, path)
		if !ok {
			continue
		}
		all = append(all, one)
		for _, link := range links {
			if kind := kindOfPage(link); !seen[kind] {
				seen[kind] = true
				queue = append(queue, link)
			}
		}
	}
	slices.SortFunc(all, func(a, b pageTime) int { return cmp.Compare(b.median, a.median) })
	var table strings.Builder
	for _, p := range all {
		fmt.Fprintf(&table, "| %s | %s | %.1f ms | %.1f ms | %.1f ms | %d |\n", p.path, engine, float64(p.median)/1e6, float64(p.most)/1e6, float64(p.baseline)/1e6, p.bytes)
		goal := pageGoal
		if strings.HasPrefix(p.path, "extstorage/installs/show?") {
			goal *= manyRows / mostRecords
		}
		if limit := max(goal, time.Duration(float64(goal)*float64(p.baseline)/float64(baselineTime))); p.median > limit {
			t.Errorf("%s: /console/%s takes %v (median), want at most %v; meanwhile %s takes %v", engine, p.path, p.median, limit, baselinePage, p.baseline)
		}
	}
	t.Logf("%d pages\n| page | engine | median of %d | maximum | settings meanwhile | bytes |\n|---|---|--:|--:|--:|--:|\n%s", len(all), pageTimes, table.String())
	if len(all) < 80 {
		t.Errorf("only %d pages", len(all))
	}
}

func kindOfPage(link string) string {
	path, query, _ := strings.Cut(link, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return link
	}
	var names []string
	for name, v := range values {
		if name == "sort" || name == "span" {
			name += "=" + v[0]
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return path + "?" + strings.Join(names, "&")
}

// wantedStatus returns a page's expected status. With this many accounts, the page refuses an order without an index.
// Labelled accounts are always ordered by label.
func wantedStatus(path string) int {
	if strings.HasPrefix(path, "tokenserver/accounts?") && !strings.Contains(path, "label=") && (strings.Contains(path, "sort=") && !strings.Contains(path, "sort=id") || strings.Contains(path, "reverse=")) {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func alertOf(page string) string {
	_, rest, _ := strings.Cut(page, `role="alert"`)
	text, _, _ := strings.Cut(rest, "</p>")
	return text
}

var consoleLink = regexp.MustCompile(`href="/console/([^"#]*)["#]`)

func openPage(t *testing.T, s *binary.Server, cookie, path string) (resp *http.Response, body string, took time.Duration) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Admin+"/console/"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	begun := time.Now()
	if resp, err = http.DefaultTransport.RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if !isHTML(resp) && resp.StatusCode == http.StatusOK {
		return resp, "", 0
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text), time.Since(begun)
}

func isHTML(resp *http.Response) bool {
	return resp.Header.Get("Content-Disposition") == "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
}

// timePage opens a page several times, each time after baselinePage, and returns its links. ok is false for a file.
func timePage(t *testing.T, s *binary.Server, cookie, path string) (p pageTime, links []string, ok bool) {
	t.Helper()
	var took, baseline []time.Duration
	for range pageTimes {
		_, _, base := openPage(t, s, cookie, baselinePage)
		resp, body, one := openPage(t, s, cookie, path)
		switch {
		case resp.StatusCode != wantedStatus(path):
			t.Errorf("/console/%s: %s\n%s", path, resp.Status, alertOf(body))
			return p, nil, false
		case !isHTML(resp):
			return p, nil, false
		}
		took, baseline = append(took, one), append(baseline, base)
		p.bytes, links = len(body), links[:0]
		for _, m := range consoleLink.FindAllStringSubmatch(body, -1) {
			links = append(links, html.UnescapeString(m[1]))
		}
	}
	slices.Sort(took)
	slices.Sort(baseline)
	p.path, p.median, p.most, p.baseline = path, took[len(took)/2], took[len(took)-1], baseline[len(baseline)/2]
	return p, links, true
}
