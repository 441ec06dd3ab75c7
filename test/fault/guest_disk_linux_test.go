package fault

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// The disk of the embedded database is full, and then it is read-only. Changes are refused,
// reads are not, and a server does not start on it. Afterwards everything works again, nothing
// that was acknowledged is lost, and a refused change succeeds when it is repeated.
func TestGuestF22(t *testing.T) {
	t.Parallel()
	if !private(t) {
		return
	}
	testdb.SQLite(t) // it counts the test
	d := newDisk(t, "32m")
	hook := newGuestHook(t)
	data := filepath.Join(d.dir, "data")
	vars := []string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__EVENTS=" + hook.URL,
	}
	g := &guests{t: t, servers: []*binary.Server{binary.Start(t, data, vars...)}}
	v := g.visitor("f22")
	want := map[string][]string{}
	done := func(event string) { want[v.session()] = append(want[v.session()], event) }
	for round := range min(int(number(t, "FAULT_ROUNDS", 1)), 4) { // of a wishlist
		n := 20 * round
		done(v.add(n))
		d.fill(round)
		refused := &guestRequest{method: http.MethodPost, path: "/wishlist"}
		for { // the log file still uses the space that it has
			n++
			refused.key, refused.body = fmt.Sprint("full-", n), guestWish(n)
			status, h, text := v.send(0, refused.method, refused.path, refused.body, refused.key)
			if status == http.StatusServiceUnavailable && h.Get("Retry-After") != "" {
				break
			}
			if status != http.StatusCreated {
				t.Fatalf("add on a full disk: %d %s", status, text)
			}
			v.live[guestProperty(n)] = true
			done("wishlist.added.v1 " + guestProperty(n))
			if n > 20*round+15 {
				t.Fatal("nothing is refused on a full disk")
			}
		}
		v.compare(0, "on a full disk")
		g.servers[0].Kill()
		d.free()
		remount := func(flags uintptr) {
			must(t, syscall.Mount("", d.dir, "", syscall.MS_REMOUNT|flags, ""))
		}
		remount(syscall.MS_RDONLY)
		cmd := exec.CommandContext(t.Context(), binary.Path(), "serve")
		cmd.Env = g.servers[0].Env
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "read-only") {
			t.Errorf("serve on a read-only disk: %v\n%s", err, out)
		}
		remount(0)
		g.servers[0] = binary.Start(t, data, vars...)
		v.compare(0, "after the disk was full and read-only")
		if status, text := v.patiently(0, refused); status != http.StatusCreated {
			t.Errorf("a refused change, repeated: %d %s", status, text)
		}
		v.live[guestProperty(n)] = true
		done("wishlist.added.v1 " + guestProperty(n))
		hook.await(t, "after the disk was full and read-only", want)
	}
}
