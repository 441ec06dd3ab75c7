package e2e

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

func rounds(t *testing.T, few int) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("FAULT_ROUNDS")); err == nil {
		return n
	}
	return few
}

func twoServers(t *testing.T, url string, more ...string) (first, second *binary.Server) {
	t.Helper()
	data := t.TempDir()
	vars := append(guestVars("HOLDFAST_GUEST__DATABASE_URL="+url, "HOLDFAST_SYNCSTORAGE__ENABLED=false",
		"HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false"), more...)
	binary.Migrate(t, data, vars...)
	first = binary.Start(t, data, vars...)
	return first, binary.Start(t, data, vars...)
}

// TestGuestHandoffRace lets many clients at two processes consume the same handoff. In each round a single client
// succeeds, its retry gets the same response, and the others are refused. The soak runs 1,000 clients, and closes all
// database connections in every tenth round; clients without a response retry.
func TestGuestHandoffRace(t *testing.T) {
	t.Parallel()
	racers, cuts := 100, false
	if _, soak := os.LookupEnv("FAULT_ROUNDS"); soak {
		racers, cuts = 1000, true
	}
	url := testdb.PostgresDatabase(t)
	first, second := twoServers(t, url, "HOLDFAST_GUEST__RATE_LIMITS=false")
	v := newVisitor(t, first)
	sites := []*site{newSite(t, first, "booking"), newSite(t, second, "booking")}
	slots := make(chan struct{}, racing)
	repeated := 0
	for round := range rounds(t, 3) {
		m := v.mint(first, fmt.Sprint("round-", round))
		answers := make([]string, racers)
		var again atomic.Int64
		var all sync.WaitGroup
		for i := range racers {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				status, text := sites[i%2].send("consume", m, fmt.Sprint(i))
				for start := time.Now(); status == http.StatusServiceUnavailable && time.Since(start) < binary.Bound; {
					again.Add(1)
					time.Sleep(5 * time.Millisecond) // ignores Retry-After
					status, text = sites[i%2].send("consume", m, fmt.Sprint(i))
				}
				switch status {
				case http.StatusOK:
					answers[i] = text
				case http.StatusConflict:
				default:
					t.Errorf("racer %d: %d %s", i, status, text)
				}
			})
			if cuts && round%10 == 0 && i == racers/2 {
				execute(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
			}
		}
		all.Wait()
		repeated += int(again.Load())
		won := winner(t, round, answers)
		for _, b := range sites {
			if text := b.want(http.StatusOK, "consume", m, fmt.Sprint(won), ""); text != answers[won] {
				t.Errorf("the retry: %s, want %s", text, answers[won])
			}
		}
	}
	t.Logf("%d requests were repeated", repeated)
}

// winner returns the only successful client.
func winner(t *testing.T, round int, answers []string) int {
	t.Helper()
	won := -1
	for i, text := range answers {
		if text != "" && won >= 0 {
			t.Fatalf("round %d: clients %d and %d both won", round, won, i)
		} else if text != "" {
			won = i
		}
	}
	if won < 0 {
		t.Fatalf("round %d: no client won", round)
	}
	return won
}

// TestGuestHandoffExpiry consumes a handoff concurrently around its expiry. The responses must agree with its history.
func TestGuestHandoffExpiry(t *testing.T) {
	t.Parallel()
	first, second := twoServers(t, testdb.PostgresDatabase(t), "HOLDFAST_GUEST__HANDOFF_LIFE=1s", "HOLDFAST_GUEST__RATE_LIMITS=false")
	v := newVisitor(t, first)
	sites := []*site{newSite(t, first, "booking"), newSite(t, second, "booking")}
	for round := range rounds(t, 2) {
		_, text := v.send(first, http.MethodPost, guest.Mint, guest.Stay, fmt.Sprint("round-", round))
		var m struct {
			guest.Handoff
			ExpiresAt time.Time
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(text)
		}
		var won atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				time.Sleep(time.Until(m.ExpiresAt) + time.Duration(i-15)*time.Millisecond)
				switch status, text := sites[i%2].send("consume", m.Handoff, fmt.Sprint(i)); status {
				case http.StatusOK:
					won.Add(1)
				case http.StatusConflict, http.StatusGone:
				default:
					t.Errorf("%d %s", status, text)
				}
			})
		}
		all.Wait()
		_, text = v.send(second, http.MethodGet, "/handoff?limit=1", "", "")
		if consumed := strings.Contains(text, `"status":"consumed"`); consumed != (won.Load() == 1) || won.Load() > 1 {
			t.Errorf("client %d won, but the history is %s", won.Load(), text)
		}
		sites[0].want(map[bool]int{true: http.StatusConflict, false: http.StatusGone}[won.Load() == 1], "consume", m.Handoff, "late", "")
	}
}

// TestGuestHandoffKeyRotation checks that a key rotation refuses no valid request, and that a revoked key is void on
// all processes at once.
func TestGuestHandoffKeyRotation(t *testing.T) {
	t.Parallel()
	first, second := twoServers(t, testdb.PostgresDatabase(t), "HOLDFAST_GUEST__RATE_LIMITS=false")
	servers, sites := []*binary.Server{first, second}, []*site{newSite(t, first, "booking"), newSite(t, second, "booking")}
	done := make(chan struct{})
	var all sync.WaitGroup
	for n := range 2 {
		v := newVisitor(t, first)
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				status, text := v.send(servers[n], http.MethodPost, guest.Mint, guest.Stay, fmt.Sprint("mint-", i))
				var m guest.Handoff
				if err := json.Unmarshal([]byte(text), &m); status != http.StatusCreated || err != nil {
					t.Errorf("mint: %d %s", status, text)
					return
				}
				if status, text := sites[1-n].send("consume", m, "a"); status != http.StatusOK {
					t.Errorf("consume: %d %s", status, text)
					return
				}
			}
		})
	}
	for range rounds(t, 5) {
		first.Verb("guest", "keys", "rotate")
	}
	close(done)
	all.Wait()

	v := newVisitor(t, first)
	m := v.mint(first, "revoked")
	sites[1].want(http.StatusOK, "verify", m, "", "")
	key := strings.Split(m.Token, ".")[1]
	first.Verb("guest", "keys", "revoke", key)
	for _, b := range sites {
		b.want(http.StatusForbidden, "verify", m, "", "token-invalid")
		b.want(http.StatusForbidden, "consume", m, "a", "token-invalid")
	}
	if out := first.Verb("guest", "keys", "list", "--json"); !strings.Contains(out, `"id":"`+key+`","state":"retired"`) {
		t.Errorf("keys list: %s", out)
	}
	m = v.mint(second, "after")
	sites[0].want(http.StatusOK, "consume", m, "a", "")
}

// TestGuestHandoffOlderDatabase replaces the database by an older copy, a SQLite file or a backup. Earlier tokens must
// be void.
func TestGuestHandoffOlderDatabase(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		s := binary.Start(t, data, guestVars()...)
		v := newVisitor(t, s)
		burned, open := v.mint(s, "one"), v.mint(s, "two")
		s.Signal(syscall.SIGINT)
		<-s.Ended
		file := filepath.Join(data, "guest.db")
		older, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s = binary.Start(t, data, guestVars()...)
		newSite(t, s, "booking").want(http.StatusOK, "consume", burned, "a", "")
		s.Signal(syscall.SIGINT)
		<-s.Ended
		for _, suffix := range []string{"-wal", "-shm"} {
			_ = os.Remove(file + suffix)
		}
		if err := os.WriteFile(file, older, 0o600); err != nil {
			t.Fatal(err)
		}
		s = binary.Start(t, data, guestVars()...)
		if !strings.Contains(s.Output.String(), "all earlier handoff tokens are void") {
			t.Error("the server does not say that the database was restored")
		}
		b := newSite(t, s, "booking")
		for _, m := range []guest.Handoff{burned, open} {
			b.want(http.StatusForbidden, "consume", m, "b", "token-invalid")
			b.want(http.StatusForbidden, "verify", m, "", "token-invalid")
		}
		b.want(http.StatusOK, "consume", v.mint(s, "three"), "a", "")
	})
	t.Run("backup", func(t *testing.T) {
		t.Parallel()
		data, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
		s := binary.Start(t, data, guestVars()...)
		v := newVisitor(t, s)
		m := v.mint(s, "one")
		s.Verb("backup", copied)
		newSite(t, s, "booking").want(http.StatusOK, "consume", m, "a", "")
		s.Kill()
		restored := binary.Start(t, copied, guestVars()...)
		b := newSite(t, restored, "booking")
		b.want(http.StatusForbidden, "consume", m, "b", "token-invalid")
		b.want(http.StatusOK, "consume", v.mint(restored, "two"), "a", "")
	})
}

// TestGuestHandoffOlderPostgres replaces a PostgreSQL database by an older copy while the server runs. Earlier tokens
// must be void, also after a restart.
func TestGuestHandoffOlderPostgres(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	admin := u.String()
	data, vars := t.TempDir(), guestVars("HOLDFAST_GUEST__DATABASE_URL="+url)
	binary.Migrate(t, data, vars...)
	s := binary.Start(t, data, vars...)
	v := newVisitor(t, s)
	m := v.mint(s, "one")
	s.Signal(syscall.SIGINT)
	<-s.Ended
	execute(t, admin, "CREATE DATABASE "+name+"_older TEMPLATE "+name)
	t.Cleanup(func() { _ = try(t, admin, "DROP DATABASE IF EXISTS "+name+"_older WITH (FORCE)") })
	s = binary.Start(t, data, vars...)
	b := newSite(t, s, "booking")
	b.want(http.StatusOK, "consume", m, "a", "")
	open := v.mint(s, "two")
	execute(t, admin, "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS false")
	execute(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	execute(t, admin, "ALTER DATABASE "+name+" RENAME TO "+name+"_newer")
	t.Cleanup(func() { _ = try(t, admin, "DROP DATABASE IF EXISTS "+name+"_newer WITH (FORCE)") })
	execute(t, admin, "ALTER DATABASE "+name+"_older RENAME TO "+name)
	s.Await("/readyz", http.StatusOK)
	for range 2 {
		b.want(http.StatusForbidden, "consume", m, "b", "token-invalid")
		if status, text := b.send("consume", open, "b"); status != http.StatusNotFound && status != http.StatusForbidden { // the copy lacks its row
			t.Errorf("handoff minted after the copy: %d %s", status, text)
		}
		s.Kill()
		s = binary.Start(t, data, vars...)
		b.internal = newSite(t, s, "booking").internal
	}
	b.want(http.StatusOK, "consume", v.mint(s, "three"), "a", "")
}

const everything = `
local out = {}
for _, k in ipairs(redis.call('KEYS', '*')) do
	local kind, read = redis.call('TYPE', k).ok, {string = {'GET', k}, hash = {'HGETALL', k}, list = {'LRANGE', k, 0, -1}, zset = {'ZRANGE', k, 0, -1}}
	local value = redis.call(unpack(read[kind]))
	out[#out + 1] = k .. ' ' .. (type(value) == 'table' and table.concat(value, ' ') or value)
end
return table.concat(out, '\n')`

// TestGuestPrivacy checks that the server never stores identifying browser data, plain, encoded or hashed without a
// key: in databases, Redis, events, metrics or logs.
func TestGuestPrivacy(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		var mu sync.Mutex
		var got []byte
		hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			text, err := httputil.DumpRequest(r, true)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, text...)
		}))
		t.Cleanup(hook.Close)
		private(t, data, guestVars("HOLDFAST_GUEST__EVENTS="+hook.URL), func() string {
			mu.Lock()
			defer mu.Unlock()
			return string(got)
		}, func() (all string) {
			if err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				all += string(text)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return all
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		url, topic := testdb.PostgresDatabase(t), "private"+rand.Text()
		_, stream := openNATS(t, topic)
		data, vars := t.TempDir(), guestVars("HOLDFAST_GUEST__DATABASE_URL="+url, "HOLDFAST_GUEST__EVENTS=nats://"+testdb.NATS(t)+"/"+topic)
		binary.Migrate(t, data, vars...)
		private(t, data, vars, func() (all string) {
			for n := uint64(1); ; n++ {
				m, err := stream.GetMsg(t.Context(), n)
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					return all
				}
				if err != nil {
					t.Fatal(err)
				}
				all += fmt.Sprintf("%v %s\n", m.Header, m.Data)
			}
		}, func() string { return rowsOf(t, url) })
	})
}

func rowsOf(t *testing.T, url string) (all string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	collect := func(sql string) []string {
		t.Helper()
		rows, err := db.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		text, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, table := range collect(`SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`) {
		all += strings.Join(collect(`SELECT r::text FROM `+table+` r`), "\n") + "\n"
	}
	return all
}

// private sends requests from recognizable browsers, and searches events, Redis, metrics, the log and the database for
// their data.
func private(t *testing.T, data string, vars []string, published, stored func() string) {
	t.Helper()
	redis := testdb.OwnRedis(t)
	s := binary.Start(t, data, append(vars, "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1", "HOLDFAST_LOG__LEVEL=debug", "HOLDFAST_LOG__ACCESS=true",
		"HOLDFAST_GUEST__BOTS__ENABLED=true", "HOLDFAST_GUEST__BOTS__SAMPLE_HUMANS=1", "HOLDFAST_GUEST__HOT="+redis.URL())...)
	v := newVisitor(t, s)
	secrets := []string{"UniqueBrowser/4711", "xx-UNIQUE;q=0.5", "203.0.113.77"}
	v.Header = http.Header{"User-Agent": {secrets[0]}, "Accept-Language": {secrets[1]}, "X-Forwarded-For": {secrets[2]}}
	m := v.mint(s, "one")
	b := newSite(t, s, "booking")
	browser := func(userAgent, ip string) string {
		return fmt.Sprintf(`{"userAgent":%q,"acceptLanguage":%q,"ip":%q}`, userAgent, secrets[1], ip)
	}
	b.Browser = browser("OtherUnique/1", secrets[2])
	b.want(http.StatusForbidden, "consume", m, "a", "other-browser")
	b.Browser = browser(secrets[0], "203.0.113.78")
	b.want(http.StatusOK, "verify", m, "a", `"suspect":true`)
	b.Browser = browser(secrets[0], secrets[2])
	b.want(http.StatusOK, "consume", m, "a", `"suspect":false`)
	b.want(http.StatusConflict, "consume", m, "b", "handoff-consumed")
	secrets = append(secrets, "OtherUnique/1", "203.0.113.78")
	contains := func(where, text string, also ...string) {
		t.Helper()
		for _, want := range also {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not contain %s", where, want)
			}
		}
		text = strings.ToLower(text)
		for _, secret := range secrets {
			sum := sha256.Sum256([]byte(secret))
			for _, form := range [][]byte{[]byte(secret), sum[:]} {
				for _, encoded := range []string{
					string(form), hex.EncodeToString(form), base64.RawStdEncoding.EncodeToString(form), base64.RawURLEncoding.EncodeToString(form), neturl.QueryEscape(string(form)),
				} {
					if strings.Contains(text, strings.ToLower(encoded)) {
						t.Errorf("%s contains %s as %q", where, secret, encoded)
					}
				}
			}
		}
	}
	got := published()
	for start := time.Now(); !(strings.Contains(got, "handoff.initiated.v1") && strings.Contains(got, "bot_suspected.v1")) && time.Since(start) < time.Minute; got = published() {
		time.Sleep(20 * time.Millisecond)
	}
	contains("published events", got, "handoff.initiated.v1", "bot_suspected.v1", m.HandoffID)
	contains("/metrics", s.Await("/metrics", http.StatusOK), "holdfast_guest")
	s.Signal(syscall.SIGINT)
	<-s.Ended
	contains("the log", s.Output.String(), "/handoff/")
	contains("Redis", redis.Must(t, "EVAL", everything, "0"), "bot:cadence:{", "bot:fp-collisions:{")
	contains("the database", stored(), m.HandoffID, "bot_suspected.v1")
}

// guestGuides returns the guide's parts for one shell. The first part begins the session.
func guestGuides(t *testing.T) string {
	t.Helper()
	all := ""
	for _, name := range []string{"guest-hotel.md", "guest-reference.md", "guest-handoffs.md", "guest-events.md", "guest-operate.md"} {
		all += guide(t, name) + "\n"
	}
	return all
}

func TestGuestGuide(t *testing.T) {
	t.Parallel()
	commands := sessions(guestGuides(t))
	if len(commands) < 25 {
		t.Fatalf("%d commands", len(commands))
	}
	folder := t.TempDir()
	s := binary.Start(t, filepath.Join(folder, "holdfast-data"), guestVars()...)
	typeAll(t, s.Env, folder, []string{"127.0.0.1:8000", host(t, s.URL), "127.0.0.1:8001", host(t, s.Admin), "127.0.0.1:8002", host(t, s.Internal())}, commands)
}

// TestGuestGuideServers runs the guide's settings against the services that they configure.
func TestGuestGuideServers(t *testing.T) {
	t.Parallel()
	text := guestGuides(t)
	settings := map[string]string{}
	for _, block := range blocks(text, "toml") {
		for _, server := range []string{"hot = \"redis", "events = \"nats", "events = \"pubsub"} {
			if strings.Contains(block, server) {
				settings[server] = block
			}
		}
	}
	if len(settings) != 3 {
		t.Fatalf("the guide has settings of %d servers", len(settings))
	}
	memory := regexp.MustCompile("(?s)Configure Redis with\n\n```\n(.*?)```").FindStringSubmatch(text)
	if memory == nil {
		t.Fatal("the guide does not say how to configure Redis")
	}
	arguments := []string{"--user", "user", "on", ">password", "~*", "&*", "+@all"}
	for line := range strings.Lines(memory[1]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		arguments = append(arguments, "--"+name, value)
	}
	topics := strings.ToLower(rand.Text()[:8])
	for server, use := range map[string]func(t *testing.T, block string) string{
		"hot = \"redis": func(t *testing.T, block string) string {
			t.Helper()
			return strings.NewReplacer("redis.example.org:6379", testdb.OwnRedis(t, arguments...).Address(),
				"postgres://holdfast@db.example.org/holdfast", testdb.PostgresDatabase(t)).Replace(block)
		},
		"events = \"nats": func(t *testing.T, block string) string {
			t.Helper()
			return strings.NewReplacer("nats.example.org:4222", testdb.NATS(t), "/guests", "/guests"+topics, "/tenants/", "/tenants"+topics+"/").Replace(block)
		},
		"events = \"pubsub": func(t *testing.T, block string) string {
			t.Helper()
			emulator := "?emulator=" + testdb.PubSub(t)
			return strings.NewReplacer(`/guests"`, "/guests"+topics+emulator+`"`, `/tenants/holdfast"`, "/tenants"+topics+"/holdfast"+emulator+`"`).Replace(block)
		},
	} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			file, data := filepath.Join(t.TempDir(), "holdfast.toml"), t.TempDir()
			if err := os.WriteFile(file, []byte(use(t, settings[server])), 0o600); err != nil {
				t.Fatal(err)
			}
			vars := []string{binary.GuestsByDefault, "HOLDFAST_CONFIG=" + file, "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
				"HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false"}
			binary.Migrate(t, data, vars...)
			s := binary.Start(t, data, vars...)
			v := newVisitor(t, s)
			v.mint(s, "one")
			for start := time.Now(); s.Verb("guest", "outbox", "list", "--json") != ""; time.Sleep(50 * time.Millisecond) {
				if time.Since(start) > binary.Bound {
					t.Fatal("events are still pending")
				}
			}
			if out := s.Verb("check"); strings.Contains(out, "warn  guest") || strings.Contains(out, "WRONG") {
				t.Errorf("check:\n%s", out)
			}
		})
	}
}
