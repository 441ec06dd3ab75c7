// Package clients tests clients in other languages: they match the OpenAPI description and work with the built binary.
package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/client/ext"
	"holdfast/test/binary"
)

const (
	tenant  = "11111111-2222-4333-8444-555555555555"
	install = "3f1d5a52-6a0c-4c39-9d6f-0f3c2b1f6f10"
)

// most is the timeout; on two idle cores it takes half a minute.
const most = 9 * time.Minute

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

// typescript is a copy of the package, with the repository files that it needs.
type typescript struct {
	ctx context.Context
	dir string
	env []string
}

// newTypeScript builds the package in a copy, as published: with the dependencies in package-lock.json and without local
// files.
func newTypeScript(ctx context.Context, t *testing.T) *typescript {
	t.Helper()
	npm := binary.Program(t, "npm")
	root := t.TempDir()
	for _, part := range []string{
		"clients/typescript/src", "clients/typescript/test", "clients/typescript/runtimes", "clients/typescript/examples",
		"clients/typescript/package.json", "clients/typescript/package-lock.json",
		"clients/typescript/.npmrc", "clients/typescript/tsconfig.json", "clients/typescript/README.md", "internal/extstorage/httpapi/openapi.json",
		"internal/guest/httpapi/openapi.json",
	} {
		take(t, root, part)
	}
	c := &typescript{ctx: ctx, dir: filepath.Join(root, "clients", "typescript")}
	if out, err := c.run(npm, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"); err != nil {
		binary.Absentf(t, "npm", "npm does not get the packages; it needs its registry: %v\n%s", err, out)
	}
	return c
}

func (c *typescript) run(program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(c.ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.dir, append(os.Environ(), c.env...), time.Second
	return cmd.CombinedOutput()
}

func (c *typescript) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := c.run(program, args...)
	if err != nil {
		t.Fatalf("%s %s in clients/typescript: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (c *typescript) serve(t *testing.T) {
	t.Helper()
	free := binary.Start(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__ENABLED=true", "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false",
		"HOLDFAST_EXTSTORAGE__DRY_RUN_TIME=1ns")
	limited := binary.Start(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__ENABLED=true",
		"HOLDFAST_EXTSTORAGE__RATES__WRITES_PER_MINUTE=30", "HOLDFAST_EXTSTORAGE__RATES__WRITE_BURST=1")
	guests := binary.Start(t, t.TempDir(), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__HANDOFF_URL=https://book.example/#{token}",
		"HOLDFAST_GUEST__BOTS__ENABLED=true", "HOLDFAST_GUEST__BOTS__HONEYPOT=offers", "HOLDFAST_GUEST__BOTS__HEADERS_WEIGHT=0", "HOLDFAST_GUEST__BOTS__CHALLENGE_BITS=10")
	signed := binary.Start(t, t.TempDir(), "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__HANDOFF_URL=https://book.example/#{token}", "HOLDFAST_GUEST__HANDOFF_ALGORITHM=ed25519",
		"HOLDFAST_GUEST__BOTS__ENABLED=false", "HOLDFAST_GUEST__HANDOFF_ISSUER=https://guests.example")
	c.env = append(c.env, "INSTALL="+install,
		"BASE_URL="+free.URL, "TOKEN="+token(free),
		"LIMITED_URL="+limited.URL, "LIMITED_TOKEN="+token(limited),
		"GUEST_URL="+guests.URL, "SIGNED_URL="+signed.URL, "SHOP_URL="+startShop(t, "HOLDFAST_GUEST__RATE_LIMITS=false").URL, "USER_SECRET="+userSecret)
}

var userSecret = strings.Repeat("u", 32)

// products is the shop's catalogue: two products, and an echo of the request.
func products(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, `{"itemId":"sku-1","name":"%s %s"}`, r.URL.Path, r.FormValue("locale"))
		return
	}
	var q struct {
		Criteria struct{ Category string }
		Page     int
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"total":2,"items":[{"itemId":"sku-%d","name":"%s %[1]d"}]}`, q.Page, q.Criteria.Category)
}

func startShop(t *testing.T, vars ...string) *binary.Server {
	t.Helper()
	return startProfile(t, fmt.Sprintf("user_keys = [%q]", userSecret), vars...)
}

func startProfile(t *testing.T, settings string, vars ...string) *binary.Server {
	t.Helper()
	_, text, _ := strings.Cut(read(t, "../../docs/guest-reference.md"), "A shop with a cart and a checkout:\n\n```toml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the guide has no profile of a shop")
	}
	data := t.TempDir()
	config := filepath.Join(data, "holdfast.toml")
	text = strings.Replace(text, "\npayload =", "\n"+settings+"\npayload =", 1)
	catalogue := httptest.NewServer(http.HandlerFunc(products))
	t.Cleanup(catalogue.Close)
	text = strings.ReplaceAll(text, "http://127.0.0.1:9000", catalogue.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return binary.Start(t, data, append(vars, "HOLDFAST_CONFIG="+config, "HOLDFAST_GUEST__ENABLED=true")...)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTypeScript(t *testing.T) {
	t.Parallel()
	node, npm := binary.Program(t, "node"), binary.Program(t, "npm")
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	c := newTypeScript(ctx, t)
	t.Run("install", func(t *testing.T) { installTypeScript(ctx, t, c.dir) })
	t.Run("worker", func(t *testing.T) {
		t.Parallel() // it uses little processor time
		followInWorker(t, c)
	})
	for _, script := range []string{"check", "types"} { // installing has built the package
		c.must(t, npm, "run", script)
	}
	t.Run("express", func(t *testing.T) { express(t, c) })
	t.Run("token", func(t *testing.T) { tokenInPage(t, c.dir) })
	t.Run("token services", func(t *testing.T) { tokenServices(t, c) })
	t.Run("restored", func(t *testing.T) { restored(t, c) })
	c.serve(t)
	for _, file := range []string{
		"test/client.test.js", "test/outages.test.js", "test/checked.test.js", "test/guest.test.js", "test/handoff.test.js", "test/runtime.test.js",
	} {
		// This does not use npm, which would leave its child processes running.
		if out := c.must(t, node, file); !strings.Contains(out, "# fail 0\n") || strings.Contains(out, "# pass 0\n") {
			t.Fatalf("no tests were run:\n%s", out)
		}
	}
}

// restored writes after a backup, restores it, and continues with a client of the lost server.
func restored(t *testing.T, c *typescript) {
	const on = "HOLDFAST_EXTSTORAGE__ENABLED=true"
	s := binary.Start(t, filepath.Join(t.TempDir(), "data"), on)
	bearer := ext.StaticToken(token(s))
	records := func() ext.Install {
		client, err := ext.New(s.URL, bearer)
		if err != nil {
			t.Fatal(err)
		}
		return client.Install(install)
	}
	put := func(value string) ext.RecordMeta {
		meta, err := records().Records("life").Put(t.Context(), "a", ext.Put{Value: value})
		if err != nil {
			t.Fatal(err)
		}
		return meta
	}
	put("first")
	backup := filepath.Join(t.TempDir(), "backup")
	s.Verb("backup", backup)
	lost := put("lost")
	last, err := records().Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	data := filepath.Join(t.TempDir(), "restored")
	if r := binary.Run(t, binary.Environ("HOLDFAST_DATA="+data, on), "restore", backup); r.Status != 0 {
		t.Fatalf("restore: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	s = binary.Start(t, data, on)
	script := *c
	script.env = append(slices.Clone(c.env), "BASE_URL="+s.URL, "INSTALL="+install, "TOKEN="+token(s),
		fmt.Sprint("SINCE=", last), "ETAG="+lost.Etag, fmt.Sprint("REVISION=", lost.Revision))
	if out := script.must(t, binary.Program(t, "node"), "test/restored.js"); out != "restored\n" {
		t.Errorf("it said %q", out)
	}
}

func take(t *testing.T, root, part string) {
	t.Helper()
	from, to := filepath.Join("..", "..", part), filepath.Join(root, part)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func token(s *binary.Server) string {
	args := []string{"ext", "tokens", "create", "--tenant", tenant, "--install", install}
	for _, ns := range []string{"life", "keys", "errors", "lists", "batches", "feed", "usage", "schemas", "numbers", "digits", "again", "once", "update"} {
		args = append(args, "--namespace", ns+"=rw")
	}
	return strings.TrimSpace(s.Verb(args...))
}
