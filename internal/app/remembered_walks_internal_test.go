package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/alerts"
	"holdfast/internal/app/service"
	"holdfast/internal/durations"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/acmetest"
)

// allRemembered are the failures that the server remembers, as docs/monitoring.md lists them.
var allRemembered = []remembered{
	{
		name: "backup", held: []string{"backup.Failure.Says"},
		shown: "check, overview, alert `backup-failed`", ends: "the next backup to any URL", off: "`backup.url` is unset", begin: backupStory,
	},
	{
		name: "verification of a backup", held: []string{"backup.Verification.Damage"},
		shown: "check, page *Backups*", ends: "a newer backup, or another verification of the backup", off: "`backup.url` is unset or changed", begin: verificationStory,
	},
	{
		name: "list of backups or restore points", held: []string{"app/overview.listing.err"},
		shown: "pages *Backups* and *Restore points*", ends: "the next read", off: "the URL is unset", begin: listStory,
	},
	{
		name: "replica", held: []string{"replica.Status.CaptureError", "replica.Status.ShipError", "replica.BodyStatus.Error", "replica.bodies.failed", "replica.bodies.stuck"},
		shown: "check, overview, alert `replica-late`", ends: "the next sent restore point, at any URL", off: "`replica.url` is unset", begin: replicaStory,
	},
	{
		name: "replica that somebody else changed", held: []string{"replica.Status.Noticed"},
		shown: "check, overview", ends: "the next start", off: "`replica.url` is unset or changed", begin: noticedStory,
	},
	{
		name: "certificate from a CA", held: []string{"certificates.ACME.problem", "certificates.storage.failure"},
		shown: "check, alert `certificate`, `holdfast_tls_certificate_renewals_total`", ends: "the next certificate, for any domain", off: "`server.domain` is unset", begin: acmeStory,
	},
	{
		name: "certificate files", held: []string{"certificates.Files.failure", "certificates.Files.warned"},
		shown: "check, alert `certificate`, `holdfast_tls_certificate_renewals_total`", ends: "usable files", off: "`server.tls_cert_file` is unset", begin: filesStory,
	},
	{
		name: "receiver of alerts", held: []string{"alerts.Failure.Says"},
		shown: "check of the running server", ends: "the next alert or test that is accepted", off: "`alerts.url` is unset or changed", begin: receiverStory,
	},
	{
		name: "sent alert", held: []string{"alerts.Condition.Says"}, isFake: true,
		shown: "page *Alerts*", ends: "its problem is not found twice in a row", off: "`alerts.url` is unset", begin: alertStory,
	},
	{
		name: "sweep", held: []string{"app/overview.swept.err"},
		shown: "page *Sweeps*, overview, alert `sweep-late`", ends: "the next round in any process", off: "its service is off", begin: sweepStory,
	},
	{
		name: "readiness of a service", held: []string{"app.outage.reason", "app.readiness.unready", "app.readiness.failed", "app.heartbeat.unready", "secrets.verification.err"},
		shown: "`/readyz`, overview, alert `not-ready`, `holdfast_ready`", ends: "the next check, every second", off: "the service is off", begin: readyStory,
	},
	{
		name: "reload of the settings", held: []string{"app.reloads.refused"},
		shown: "check of the running server", ends: "the next reload that is applied", off: "the next start", begin: reloadStory,
	},
	{
		name: "warning about a setting", held: []string{"app/service.Finding.Says"},
		shown: "check", ends: "a reload without the problem", off: "the setting is unset", begin: settingStory,
	},
	{
		name: "public URL", held: []string{"app/service.Finding.Says"},
		shown: "check", ends: "the next check, at the latest after ten minutes", off: "`server.public_url` is unset", begin: publicStory,
	},
	{
		name: "damaged copy of a body", held: []string{"buckets.Damage.Problem", "buckets.Damage.Error", "SQL:manta_bucket_damage.problem", "SQL:manta_bucket_damage.error"},
		shown: "check, page *Damaged copies*, overview, alert `backlog`, `holdfast_buckets_damaged_copies`", ends: "the copy is repaired, or its object is deleted; seen within an hour",
		off: "its node is removed; without `buckets.scrub_interval`, reads still find damage and servers still repair it", begin: damageStory,
	},
	{
		name: "lifecycle run", held: []string{"buckets.LifecycleRun.Error"},
		shown: "page *Lifecycle rules*", ends: "the next run", off: "the bucket has no enabled rule", begin: lifecycleStory,
	},
	{
		name: "import, and other background jobs", held: []string{"operate.Run.Err"},
		shown: "page of the job, page *Background jobs*", ends: "a newer run of the job", off: "the next start: jobs run only by hand", begin: importStory,
	},
	{
		name: "objects and settings that an import left out", held: []string{"buckets.ImportNote.Reason"},
		shown: "check, page of the bucket", ends: "the next import of the bucket, or somebody sets the setting", off: "an operator accepts it: `holdfast buckets buckets accept-import`", begin: leftOutStory, //nolint:dupword // a command
	},
	{
		name: "storage node", held: []string{"buckets/blobs.member.err"},
		shown: "check, page *Storage nodes*, `holdfast_buckets_node_up`", ends: "the node works at the next look, every ten seconds", off: "the node is removed, or buckets are off", begin: nodeStory,
	},
	{
		name: "new storage node", held: []string{"app/buckets.nodes.failed"},
		shown: "check", ends: "the node is initialized, at any URL", off: "it is removed from `buckets.nodes`", begin: newNodeStory,
	},
	{
		name: "event that was set aside", held: []string{
			"SQL:manta_bucket_event_refused.reason", "SQL:ext_storage_outbox_refused.reason", "SQL:outbox.last_error",
		},
		shown: "page *Dead letters*, overview, alert `backlog`, `holdfast_outbox_dead_events`", ends: "an operator republishes or deletes it",
		off: "notifications of buckets are dropped after `buckets.drop_events_after`; other events stay, because they are data", begin: eventStory,
	},
	{
		name: "comparison of browsers", shown: "page *Browser comparisons*", ends: "the next comparison", off: "an operator begins or ends comparisons", begin: comparisonStory,
	},
	{
		name: "Redis", held: []string{"db/redisdb.DB.last"},
		shown: "check, `holdfast_guest_redis_up`", ends: "the next connection, at any URL", off: "`guest.hot` is unset", begin: redisStory,
	},
}

// places returns URLs for a folder that cannot be created and one that can.
func (s *walkedServer) places() (blocked, good string) {
	root := s.t.TempDir()
	s.must(os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	return "file://" + filepath.ToSlash(filepath.Join(root, "file", "folder")), "file://" + filepath.ToSlash(filepath.Join(root, "good"))
}

func backupStory(t *testing.T) story {
	s := newWalkedServer(t)
	blocked, good := s.places()
	return story{
		server:  s,
		isShown: s.shows("warn backup: the latest backup to "+blocked, "condition backup-failed"),
		fail: func() {
			s.start("BACKUP__URL=" + blocked)
			if _, err := s.backups.Make(t.Context(), nil); err == nil {
				t.Fatal("a backup into a file was made")
			}
		},
		succeed: func() {
			s.start("BACKUP__URL=" + good)
			_, err := s.backups.Make(t.Context(), nil)
			s.must(err)
		},
		turnOff: func() { s.start() },
	}
}

func verificationStory(t *testing.T) story {
	s := newWalkedServer(t)
	damaged, good := t.TempDir(), t.TempDir()
	backUp := func(folder string) time.Time {
		s.start("BACKUP__URL=file://" + filepath.ToSlash(folder))
		sent, err := s.backups.Make(t.Context(), nil)
		s.must(err)
		return sent.Point.Time
	}
	return story{
		server:  s,
		isShown: s.shows("damaged when it was verified at "),
		fail: func() {
			damaged = t.TempDir()
			at := backUp(damaged)
			s.must(filepath.WalkDir(filepath.Join(damaged, "files"), func(name string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				return os.WriteFile(name, []byte("damaged"), 0o600)
			}))
			_, err := s.backups.Verify(t.Context(), at, func(string) {})
			s.must(err)
		},
		succeed: func() { backUp(good) },
		turnOff: func() { s.start() },
	}
}

func listStory(t *testing.T) story {
	s := newWalkedServer(t)
	blocked, good := s.places()
	return story{
		server: s,
		isShown: func() bool {
			state, _ := s.api(http.MethodGet, "/backup", "")["state"].(map[string]any)
			return state["problem"] != nil
		},
		fail:    func() { s.start("BACKUP__URL=" + blocked) },
		succeed: func() { s.start("BACKUP__URL=" + good) },
		turnOff: func() { s.start() },
	}
}

func replicaStory(t *testing.T) story {
	s := newWalkedServer(t)
	blocked, good := s.places()
	return story{
		server:  s,
		isShown: s.shows("; the last attempt failed: "),
		fail:    func() { s.start("REPLICA__URL=" + blocked) },
		succeed: func() { s.start("REPLICA__URL=" + good) },
		turnOff: func() { s.start() },
	}
}

func noticedStory(t *testing.T) story {
	s := newWalkedServer(t)
	folder := t.TempDir()
	url := "REPLICA__URL=file://" + filepath.ToSlash(folder)
	return story{
		server:  s,
		isShown: s.shows("warn replica: ", "the target lacks the restore point"),
		fail: func() {
			s.start(url)
			s.await("a restore point", func() bool { return !s.replication.State().Since.IsZero() })
			s.stop()
			s.must(os.RemoveAll(filepath.Join(folder, "points")))
			s.start(url)
		},
		succeed: func() { s.start(url) },
		turnOff: func() { s.start() },
	}
}

func acmeStory(t *testing.T) story {
	s := newWalkedServer(t)
	listen := testdb.FreeAddress(t)
	authority := acmetest.Start(t, listen, testdb.FreeAddress(t), uint64((90 * 24 * time.Hour).Seconds()))
	start := func(domain string) {
		s.start("SERVER__DOMAIN="+domain, "SERVER__LISTEN="+listen, "SERVER__HTTP_LISTEN=", "SERVER__ACME_DIRECTORY="+authority.Directory, "SERVER__ACME_ROOT_FILE="+authority.RootFile)
	}
	return story{
		server: s,
		isShown: func() bool {
			state, early := s.overview.Certificate()
			return state != nil && state.Problem != "" && early > 0
		},
		fail: func() { start("holdfast.none") }, // the authority finds no address for it
		succeed: func() {
			start("walk.example.org")
			s.await("a certificate", func() bool { return !s.certificates.State().Until.IsZero() })
		},
		turnOff: func() { s.start() },
	}
}

func filesStory(t *testing.T) story {
	s := newWalkedServer(t)
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	write := func() {
		certificate, private, err := testdb.SelfSigned(&x509.Certificate{NotAfter: time.Now().Add(60 * 24 * time.Hour), DNSNames: []string{"walk.example.org"}})
		s.must(err)
		s.must(os.WriteFile(cert, certificate, 0o600))
		s.must(os.WriteFile(key, private, 0o600))
	}
	return story{
		server: s,
		isShown: func() bool {
			state, _ := s.overview.Certificate()
			return state != nil && state.Problem != "" && s.shows("WRONG server.tls_cert_file: ", "condition certificate")()
		},
		fail: func() {
			write()
			s.start("SERVER__TLS_CERT_FILE="+cert, "SERVER__TLS_KEY_FILE="+key)
			s.must(os.WriteFile(cert, []byte("no certificate"), 0o600))
		},
		succeed: write,
		turnOff: func() { s.start() },
	}
}

// newReceiver returns a web server that answers with a status, 200 at first.
func newReceiver(t *testing.T) (url string, status *atomic.Int64) {
	t.Helper()
	status = &atomic.Int64{}
	status.Store(http.StatusOK)
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(r.Close)
	return r.URL, status
}

func receiverStory(t *testing.T) story {
	s := newWalkedServer(t)
	url, status := newReceiver(t)
	s.start("ALERTS__URL=" + url)
	return story{
		server:  s,
		isShown: s.shows("warn alerts: the latest alert could not be sent"),
		fail: func() {
			status.Store(http.StatusInternalServerError)
			if err := s.alerts.SendTest(t.Context()); err == nil {
				t.Fatal("a refused alert was sent")
			}
		},
		succeed: func() {
			status.Store(http.StatusOK)
			s.must(s.alerts.SendTest(t.Context()))
		},
		turnOff: func() { s.alerts.Set(alerts.Settings{}) },
	}
}

type accepting struct{}

func (accepting) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}, nil
}

func alertStory(t *testing.T) story {
	var is atomic.Bool
	a := &alerts.Alerts{
		Server: "test", File: filepath.Join(t.TempDir(), "alerts.json"), Clock: time.Now, Log: slog.New(slog.DiscardHandler), Client: &http.Client{Transport: accepting{}},
		Conditions: func(context.Context, alerts.Settings) []alerts.Condition {
			if is.Load() {
				return []alerts.Condition{{Name: "disk-full", State: service.Wrong, Says: "1 MiB free"}}
			}
			return nil
		},
	}
	a.Set(alerts.Settings{URL: "https://alerts.example", Format: alerts.JSON})
	go a.Run(t.Context())
	return story{
		isShown: func() bool { return len(a.Known()) > 0 },
		fail:    func() { is.Store(true) },
		succeed: func() { is.Store(false) },
		turnOff: func() { a.Set(alerts.Settings{}) },
	}
}

var errBrush = errors.New("the brush is broken")

func sweepStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start("BRUSH__ENABLED=true")
	s.await("a sweep, which is known a moment after the start,", func() bool {
		return strings.Contains(fmt.Sprint(s.api(http.MethodGet, "/sweeps", "")), "brush by hand")
	})
	run := func(job string) error {
		_, _, err := s.sweeper.RunNow(t.Context(), job, func(int) {})
		return err
	}
	return story{
		server: s,
		isShown: func() bool {
			if strings.Contains(s.says(), "brush by hand") {
				t.Error("a job that runs only by hand warns of its failure for ever")
			}
			return s.shows("condition sweep-late brush: the sweep fails: the brush is broken")()
		},
		fail: func() {
			s.brush.set(errBrush)
			for _, job := range []string{"brush", "brush by hand"} {
				if err := run(job); !errors.Is(err, errBrush) {
					t.Fatal(err)
				}
			}
			s.brush.set(nil)
		},
		succeed: func() { s.must(run("brush")) },
		turnOff: func() { s.start() },
	}
}

func readyStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start("BRUSH__ENABLED=true")
	return story{
		server: s,
		isShown: func() bool {
			return s.shows("condition not-ready brush: the brush is broken")() && s.heartbeat(t.Context())["brush"] != nil
		},
		fail:    func() { s.brush.set(errBrush) },
		succeed: func() { s.brush.set(nil) },
		turnOff: func() { s.start() },
	}
}

func reloadStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start()
	return story{
		server:  s,
		isShown: s.shows("WRONG reload: refused: "),
		fail: func() {
			s.configure("[server]\nmax_requests = 0\n")
			if _, err := s.reload(t.Context()); err == nil {
				t.Fatal("an invalid setting was applied")
			}
		},
		succeed: func() {
			s.configure("[server]\nmax_requests = 77\n")
			_, err := s.reload(t.Context())
			s.must(err)
		},
		turnOff: func() {
			s.configure("")
			s.start()
		},
	}
}

func settingStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start()
	reload := func(text string) {
		s.configure(text)
		_, err := s.reload(t.Context())
		s.must(err)
	}
	url, _ := newReceiver(t)
	return story{
		server:  s,
		isShown: s.shows("warn ", "alerts.backup_age"),
		fail:    func() { reload("[alerts]\nbackup_age = \"100h\"\n") },
		succeed: func() { reload("[alerts]\nbackup_age = \"100h\"\nurl = \"" + url + "\"\n") },
		turnOff: func() { reload("") },
	}
}

func publicStory(t *testing.T) story {
	s := newWalkedServer(t)
	url, status := newReceiver(t)
	return story{
		server: s,
		isShown: func() bool {
			found, at := s.checks.Latest(t.Context(), s.now(), 0, 15*time.Second)
			for _, f := range found {
				if f.What == "server.public_url" && f.State != service.OK {
					return !at.IsZero()
				}
			}
			return false
		},
		fail: func() {
			s.start("SERVER__PUBLIC_URL=" + url)
			status.Store(http.StatusInternalServerError)
		},
		succeed: func() { status.Store(http.StatusOK) },
		turnOff: func() { s.start() },
	}
}

// bodies returns the files on the local storage node that are larger than 100 KB.
func (s *walkedServer) bodies() (all []string) {
	s.t.Helper()
	s.must(filepath.WalkDir(filepath.Join(s.data, "buckets"), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > 100<<10 {
			all = append(all, name)
		}
		return nil
	}))
	return all
}

// putDamaged stores an object and damages its only copy.
func (c *s3) putDamaged(key string) {
	c.t.Helper()
	c.put(key, strings.Repeat("a body ", 50_000))
	for _, name := range c.bodies() {
		text, err := os.ReadFile(name)
		c.must(err)
		text[len(text)/2] = 0
		c.must(os.WriteFile(name, text, 0o600))
	}
}

func (c *s3) remove(key string) {
	c.t.Helper()
	if status, _ := c.do(http.MethodDelete, key, ""); status != http.StatusNoContent {
		c.t.Fatalf("delete %s: %d", key, status)
	}
}

func damageStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start()
	c := s.newS3()
	return story{
		server:  s,
		isShown: s.shows("WRONG buckets copies: walker/photos/k ", "condition backlog buckets, Damaged copies"),
		fail: func() {
			c.putDamaged("k")
			if _, isWhole := c.do(http.MethodGet, "k", ""); isWhole {
				t.Fatal("a damaged body was read")
			}
		},
		succeed: func() {
			c.remove("k")
			s.ahead.Add(int64(2 * time.Hour)) // repairs pause up to an hour
		},
	}
}

// execute runs a statement on a service's SQLite file, as another program would. Triggers that refuse a write violate a key:
// the server takes RAISE for a service that is read-only.
func (s *walkedServer) execute(name, sql string) {
	s.t.Helper()
	c, err := zombiezen.OpenConn(filepath.Join(s.data, name+".db"), zombiezen.OpenReadWrite)
	s.must(err)
	defer c.Close()
	c.SetBlockOnBusy()
	s.must(sqlitex.ExecuteScript(c, sql, nil))
}

func lifecycleStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start()
	c := s.newS3()
	const bucket = "/buckets/lifecycle/walker/photos"
	run := func() {
		s.api(http.MethodPost, bucket+"/all/set", `{"expireDays":1}`)
		s.api(http.MethodPost, bucket+"/run", "")
		s.awaitRun("/buckets/runs")
	}
	return story{
		server: s,
		isShown: func() bool {
			state, _ := s.api(http.MethodGet, bucket, "")["state"].(string)
			return strings.HasPrefix(state, "failed: ")
		},
		fail: func() {
			c.put("old", "x")
			//nolint:unqueryvet // the same columns
			s.execute("buckets", `UPDATE manta_bucket_object SET modified = modified - 5 * 86400 * 1000000;
				CREATE TRIGGER refused BEFORE DELETE ON manta_bucket_object BEGIN INSERT INTO manta_bucket_object SELECT * FROM manta_bucket_object WHERE id = OLD.id; END`)
			run()
		},
		succeed: func() {
			s.execute("buckets", "DROP TRIGGER refused")
			run()
		},
		turnOff: func() { s.api(http.MethodPost, bucket+"/clear", "") },
	}
}

func importStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start()
	c := s.newS3()
	c.put("k", "x")
	s.api(http.MethodPost, "/buckets/accounts/other/create", "")
	refused, status := newReceiver(t)
	status.Store(http.StatusForbidden)
	run := func(endpoint string) {
		s.api(http.MethodPost, "/buckets/imports/other/run", `{"source":"s3://photos","endpoint":"`+endpoint+`","accessKey":"`+c.key.AccessKeyID+`","secretKey":"`+c.key.Secret+`"}`)
		s.awaitRun("/buckets/runs")
	}
	return story{
		server:  s,
		isShown: func() bool { return s.latest("/buckets/runs")["state"] == "failed" },
		fail:    func() { run(refused) },
		succeed: func() { run(c.endpoint()) },
		turnOff: func() { s.start() },
	}
}

func leftOutStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start()
	c := s.newS3()
	s.api(http.MethodPost, "/buckets/accounts/other/create", "")
	run := func() {
		s.api(http.MethodPost, "/buckets/imports/other/run", `{"source":"s3://photos","endpoint":"`+c.endpoint()+`","accessKey":"`+c.key.AccessKeyID+`","secretKey":"`+c.key.Secret+`"}`)
		s.awaitRun("/buckets/runs")
	}
	return story{
		server:  s,
		isShown: s.shows("other/photos: the last import left out its objects"),
		fail: func() {
			c.putDamaged("k")
			run()
		},
		succeed: func() {
			c.remove("k")
			run()
		},
		turnOff: func() { s.api(http.MethodPost, "/buckets/buckets/other/photos/accept-import", "") },
	}
}

func nodeStory(t *testing.T) story {
	s := newWalkedServer(t)
	folder := filepath.Join(s.data, "buckets")
	return story{
		server:  s,
		isShown: s.shows("WRONG buckets nodes: local:1, "),
		fail: func() {
			s.start()
			s.must(os.Rename(folder, folder+".away"))
			s.must(os.WriteFile(folder, nil, 0o600))
		},
		succeed: func() {
			s.must(os.Remove(folder))
			s.must(os.Rename(folder+".away", folder))
		},
		turnOff: func() { s.start("BUCKETS__ENABLED=false") },
	}
}

func newNodeStory(t *testing.T) story {
	s := newWalkedServer(t)
	blocked, good := s.places()
	node := func(id, url string) string { return "[buckets.nodes.\"home:" + id + "\"]\nurl = \"" + url + "\"\n" }
	first := node("first", "file://"+filepath.ToSlash(t.TempDir()))
	second := ""
	configure := func(text string) {
		s.configure(first + text)
		s.start()
	}
	return story{
		server:  s,
		isShown: func() bool { return strings.Contains(s.says(), "WRONG buckets nodes: home:") },
		fail:    func() { configure(second + node("new"+durations.Format(time.Duration(len(second))), blocked)) },
		succeed: func() {
			second = node("new0s", good)
			configure(second)
		},
		turnOff: func() { configure(second) },
	}
}

// wish adds a property to a new guest's wishlist, which publishes events.
func (s *walkedServer) wish(property string) {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	s.must(err)
	client := &http.Client{Jar: jar}
	s.post(client, "session", "", "first")
	s.post(client, "wishlist", `{"tenantId":"11111111-2222-4333-8444-555555555555","propertyId":"`+property+`","source":"map"}`, property)
}

func (s *walkedServer) post(client *http.Client, path, body, key string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addresses[service.Main]+"/bff/consumer/v1/"+path, strings.NewReader(body))
	s.must(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(r)
	s.must(err)
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("%s: %s %s", path, resp.Status, text)
	}
}

// eventStory uses guests, whose events become dead letters after one refusal here. A sink that refuses everything counts as
// unavailable, so it accepts other events.
func eventStory(t *testing.T) story {
	const refused = "22222222-2222-4333-8444-55555555dead"
	s := newWalkedServer(t)
	var accepts atomic.Bool
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, err := io.ReadAll(r.Body); err != nil || !accepts.Load() && strings.Contains(string(text), refused) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(sink.Close)
	s.start("GUEST__ENABLED=true", "GUEST__EVENTS="+sink.URL, "GUEST__EVENT_ATTEMPTS=1", "GUEST__RATE_LIMITS=false",
		"GUEST__BOTS__ENABLED=false") // sessions without end look like a bot
	isShown := s.shows("condition backlog guest, Dead letters")
	return story{
		server:  s,
		isShown: isShown,
		fail: func() {
			accepts.Store(false)
			s.wish(refused)
			for !isShown() {
				s.wish("33333333-2222-4333-8444-555555550000")
			}
		},
		succeed: func() {
			accepts.Store(true)
			s.api(http.MethodPost, "/guest/dead-letters/retry-all", "")
		},
	}
}

func comparisonStory(t *testing.T) story {
	s := newWalkedServer(t)
	s.start()
	s.execute("syncstorage", `INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes) VALUES (1, 0, 1000, 0, 0), (1, 6, 1000, 1, 10);
		INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload) VALUES (1, 6, 'global', 1000, '{"syncID":"AAAAAAAAAAAA","storageVersion":5,"engines":{"tabs":{"version":1,"syncID":"BBBBBBBBBBBB"}}}')`)
	run := func() {
		s.api(http.MethodPost, "/sync/comparisons/run", "")
		s.awaitRun("/sync/runs")
	}
	return story{
		server: s,
		isShown: func() bool {
			all, _ := s.api(http.MethodGet, "/sync/comparisons", "")["comparisons"].([]any)
			if len(all) == 0 {
				return false
			}
			one, _ := all[0].(map[string]any)
			return one["failed"] != float64(0)
		},
		fail: func() {
			s.execute("syncstorage", "CREATE TRIGGER refused BEFORE UPDATE ON bsos BEGIN INSERT INTO collections (collection_id, name) VALUES (6, 'meta'); END")
			run()
		},
		succeed: func() {
			s.execute("syncstorage", "DROP TRIGGER refused")
			run()
		},
	}
}

func redisStory(t *testing.T) story {
	s := newWalkedServer(t)
	url := testdb.Redis(t)
	hot := func(url string) {
		s.start("GUEST__ENABLED=true", "GUEST__HOT="+url, "GUEST__HOT_PREFIX=walk")
	}
	return story{
		server: s,
		isShown: func() bool {
			resp, err := http.Get("http://" + s.addresses[service.Admin] + "/metrics")
			s.must(err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			s.must(err)
			return strings.Contains(string(text), "\nholdfast_guest_redis_up 0") && s.shows("WRONG guest hot state: ")()
		},
		fail:    func() { hot("redis://" + testdb.FreeAddress(t)) },
		succeed: func() { hot(url) },
		turnOff: func() { s.start("GUEST__ENABLED=true") },
	}
}
