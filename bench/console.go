package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const pageGoal = 200 * time.Millisecond

func consoleHead(o *options, out io.Writer) {
	n := thousands(o.size.consoleRows)
	fmt.Fprintf(out, "With %s Firefox Sync accounts with one record each, %s allowed accounts, %s installs with one record each, %s objects in one bucket. Each page %d times.\n\n",
		n, n, n, n, consoleTimes(o))
	fmt.Fprint(out, "| console page | engine | median | slowest | goal | bytes |\n|---|---|--:|--:|--:|--:|\n")
}

func consoleTimes(o *options) int { return 4 * o.runs }

// The second page in a list ("next" in the name) is found by its link.
var consolePages = []struct{ name, path string }{
	{"overview", ""},
	{"checks", "checks"},
	{"accounts", "tokenserver/accounts"},
	{"accounts, next", "tokenserver/accounts"},
	{"account", "tokenserver/accounts/show?account=" + consoleAccount},
	{"allow and deny lists", "tokenserver/access"},
	{"allow and deny lists, next", "tokenserver/access"},
	{"refused sign-ins", "tokenserver/refused"},
	{"installs", "extstorage/installs"},
	{"installs, next", "extstorage/installs"},
	{"tenants", "extstorage/tenants"},
	{"tenants, next", "extstorage/tenants"},
	{"tenant", "extstorage/tenants/show?tenant=" + consoleTenant},
	{"install", "extstorage/installs/show?tenant=" + consoleTenant + "&install=" + consoleInstall},
	{"records", "extstorage/records?tenant=" + consoleTenant + "&install=" + consoleInstall + "&namespace=" + extPutNamespace},
	{"bucket accounts", "buckets/accounts"},
	{"bucket account", "buckets/accounts/show?account=main"},
	{"objects", "buckets/objects?account=main&bucket=" + consoleBucket},
	{"objects in a folder", "buckets/objects?account=main&bucket=" + consoleBucket + "&prefix=50%2F"},
	{"objects in a folder, next", "buckets/objects?account=main&bucket=" + consoleBucket + "&prefix=50%2F"},
	{"object", "buckets/object?account=main&bucket=" + consoleBucket + "&object=00%2F000000000000"},
}

const (
	consoleAccount = "00000000000000000000000000000001"
	consoleTenant  = extTenant + "100000000001"
	consoleInstall = extInstall + "100000000001"
	consoleBucket  = "console"
)

// Parameter: account count.
var (
	liteGrowAccounts = []string{`
		WITH RECURSIVE a (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n < %[1]d)
		INSERT INTO users (uid, service, email, generation, client_state, created_at, nodeid, keys_changed_at)
		SELECT n, (SELECT id FROM services WHERE service = 'sync-1.5'), printf('%%032x@api.accounts.firefox.com', n), 1, '00', 1700000000000 + n, (SELECT min(id) FROM nodes), 1 FROM a`, `
		WITH RECURSIVE a (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n < %[1]d)
		INSERT INTO account_access (fxa_uid, access, note, created_at) SELECT printf('%%032x', n), 'allow', 'a note', 1700000000000 + n FROM a`,
		`UPDATE nodes SET current_load = %[1]d`,
	}
	pgGrowAccounts = []string{`
		INSERT INTO users (uid, service, email, generation, client_state, created_at, nodeid, keys_changed_at)
		SELECT n, (SELECT id FROM services WHERE service = 'sync-1.5'), lpad(to_hex(n), 32, '0') || '@api.accounts.firefox.com', 1, '00', 1700000000000 + n, (SELECT min(id) FROM nodes), 1
		FROM generate_series(1, %[1]d) n`, `
		INSERT INTO account_access (fxa_uid, access, note, created_at) SELECT lpad(to_hex(n), 32, '0'), 'allow', 'a note', 1700000000000 + n FROM generate_series(1, %[1]d) n`,
		`UPDATE nodes SET current_load = %[1]d`, `VACUUM ANALYZE users, account_access`, `CHECKPOINT`,
	}
)

func measureConsole(ctx context.Context, o *options, e *engine, out io.Writer) error {
	sync, ext, buckets, n := newSync(), newExt(), newBuckets(o.size), o.size.consoleRows
	settings, err := buckets.enable()
	if err != nil {
		return err
	}
	// The checks would contact Mozilla's server.
	settings = append(settings, "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL=http://127.0.0.1:1")
	return onServer(ctx, o, e, settings, func(s *server) error {
		owner, err := buckets.owner(s, 1)
		if err != nil {
			return err
		}
		c, err := dial(ctx, owner)
		if err != nil {
			return err
		}
		err = c.exchange(ctx, http.MethodPut, "/"+consoleBucket, nil, "", io.Discard)
		c.hangUp()
		if err != nil {
			return err
		}
		if err := errors.Join(
			s.past(ctx, filepath.Join(s.data(), "tokenserver.db"), script(liteGrowAccounts, n), script(pgGrowAccounts, n)),
			sync.grow(ctx, s, 1, n, 1, 100), ext.grow(ctx, s, 1, n, 1, 100),
			s.past(ctx, bucketsFile(s.data()), script(liteGrowBucket, consoleBucket, n), script(pgGrowBucket, consoleBucket, n)),
		); err != nil {
			return err
		}
		return readConsole(ctx, o, s, out)
	})
}

func readConsole(ctx context.Context, o *options, s *server, out io.Writer) error {
	browser, err := s.signIn(ctx)
	if err != nil {
		return err
	}
	defer browser.CloseIdleConnections()
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	for _, page := range consolePages {
		address := "http://" + s.admin + "/console/" + page.path
		body, _, err := get(ctx, browser, address)
		if err != nil {
			return err
		}
		if strings.HasSuffix(page.name, ", next") {
			link := next.FindStringSubmatch(body)
			if link == nil {
				return fmt.Errorf("%s has no next page:\n%s", address, body)
			}
			address = "http://" + s.admin + html.UnescapeString(link[1])
		}
		var took []time.Duration
		for range consoleTimes(o) {
			var one time.Duration
			if body, one, err = get(ctx, browser, address); err != nil {
				return err
			}
			took = append(took, one)
		}
		slowest := slices.Max(took)
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s%s | %s |\n", page.name, s.engine.name, ms(medianTime(took)), ms(slowest), missed(slowest > pageGoal), ms(pageGoal), thousands(len(body)))
	}
	return nil
}

func (s *server) signIn(ctx context.Context) (*http.Client, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser, base := &http.Client{Jar: jar, Transport: &http.Transport{}}, "http://"+s.admin
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/console/sign-in", strings.NewReader(url.Values{"token": {s.token}}.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", base)
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("sign in to the console: %s", resp.Status)
	}
	return browser, nil
}

func get(ctx context.Context, browser *http.Client, address string) (body string, took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", 0, err
	}
	begun := time.Now()
	resp, err := browser.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	took = time.Since(begun)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s\n%s", address, resp.Status, text)
	}
	return string(text), took, err
}
