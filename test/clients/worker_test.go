package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/client/ext"
	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/chromium"
)

const manifest = `{"manifest_version": 3, "name": "Follower", "version": "1", "permissions": ["alarms", "storage"],
"host_permissions": ["http://127.0.0.1/*"], "background": {"service_worker": "worker.js", "type": "module"}}`

// extension writes an extension whose worker is the README's example, which also reports its copy of the records.
func extension(t *testing.T, dist, server, token, report string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "dist"), os.DirFS(dist)); err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(read(t, "../../clients/typescript/README.md"), "\n## Extensions\n")
	_, worker, _ := strings.Cut(section, "```js\n")
	worker, _, found := strings.Cut(worker, "```")
	const save = "await chrome.storage.local.set({ copy });"
	if !found || strings.Count(worker, save) != 2 {
		t.Fatalf("the README has no example of a worker:\n%s", worker)
	}
	options, err := json.Marshal(map[string]string{"baseUrl": server, "install": install, "token": token})
	if err != nil {
		t.Fatal(err)
	}
	worker = strings.NewReplacer(`"@holdfast/ext-storage"`, `"./dist/index.js"`, `"@holdfast/ext-storage/worker"`, `"./dist/worker.js"`,
		"createClient(options)", "createClient("+string(options)+")",
		save, save+fmt.Sprintf(" await fetch(%q, { method: 'POST', body: JSON.stringify(copy) });", report)).Replace(worker)
	for name, text := range map[string]string{"manifest.json": manifest, "worker.js": worker} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// followInWorker follows changes in the service worker of an extension, which Chromium ends when it is idle for 30 s, and
// which the test ends once. The times of the changes are real, because Chromium's limits are.
func followInWorker(t *testing.T, c *typescript) {
	testdb.CheckOnly(t, "it takes two minutes")
	server := binary.Start(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__ENABLED=true")
	token := strings.TrimSpace(server.Verb("ext", "tokens", "create", "--tenant", tenant, "--install", install, "--namespace", "settings=rw"))
	client, err := ext.New(server.URL, ext.StaticToken(token))
	if err != nil {
		t.Fatal(err)
	}
	settings := client.Install(install).Records("settings")
	put := func(key string) {
		t.Helper()
		if _, err := settings.Put(t.Context(), key, ext.Put{Value: true}); err != nil {
			t.Fatal(err)
		}
	}
	put("first")

	copies := make(chan map[string]any, 100)
	reports := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var records map[string]any
		if text, err := io.ReadAll(r.Body); err == nil && json.Unmarshal(text, &records) == nil && records != nil {
			copies <- records
		}
	}))
	defer reports.Close()
	await := func(key string) {
		t.Helper()
		for {
			select {
			case records := <-copies:
				if records[key] == true {
					return
				}
			case <-time.After(binary.Bound):
				t.Fatalf("the extension has not received %s", key)
			}
		}
	}

	browser := chromium.StartExtension(t, extension(t, filepath.Join(c.dir, "dist"), server.URL, token, reports.URL))
	await("first")
	began := time.Now()
	for _, at := range []int{10, 50, 95} {
		if at == 95 {
			browser.EndWorkers(t)
		}
		<-time.After(time.Until(began.Add(time.Duration(at) * time.Second)))
		key := fmt.Sprintf("after-%d", at)
		put(key)
		await(key)
		t.Logf("%s arrived %v after the first", key, time.Since(began).Round(time.Second))
	}
}
