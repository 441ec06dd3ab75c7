package fault

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/test/binary"
)

// object is what a writer knows of an object.
type object struct {
	sum    string // MD5 of the body in hexadecimal; "": there is no object
	bodies int    // on storage nodes
}

// objectVersion is an object during a span of the harness's clock: it was the current one from a moment
// between sent and acknowledged on.
type objectVersion struct {
	object
	sent, acknowledged int64
}

// objectWriter writes objects that no other client writes, one after the other.
type objectWriter struct {
	of      *bucketsWorkload
	n       int
	choose  *rand.Rand
	serial  int // of bodies
	state   map[string]object
	history map[string][]objectVersion
	lost    *objectWrite // without an answer
}

// objectWrite is a change of an object. It is acknowledged when all of its requests are.
type objectWrite struct {
	kind, key     string
	parts         []string // of an upload, or one body
	before, after object
	sent          int64
	refused       bool
}

func (d *objectWrite) String() string { return d.kind + " " + d.key }

// asker sends a request of a round.
type asker func(method, target, body string, headers ...string) (binary.Answer, bool)

// run writes until the fault is over. If an answer is lost, it reads what is there.
func (w *objectWriter) run(h *harness, l *load) {
	ask := func(method, target, body string, headers ...string) (binary.Answer, bool) {
		return h.judge(l, method, target, func() (binary.Answer, error) {
			return w.of.send(h, h.serverOf(w.n), method, target, body, headers...)
		})
	}
	fail := func(err error) {
		h.t.Error(err)
		l.end()
	}
	for !closed(l.over) {
		if w.lost != nil {
			pause(l.over, 20*time.Millisecond)
			if err := w.look(h, ask); err != nil {
				fail(err)
				return
			}
			continue
		}
		d := w.next()
		d.sent = h.clock.Add(1)
		a, answered, err := d.do(ask)
		switch {
		case err != nil:
			fail(fmt.Errorf("%s: %w", d, err))
			return
		case !answered:
			d.refused = a.Status == http.StatusServiceUnavailable
			w.lost = d
			if l.deadly {
				return // the server may be dead
			}
			continue
		}
		w.done(d, h.clock.Add(1))
		l.acknowledge()
		if w.choose.IntN(3) > 0 {
			continue
		}
		if a, answered := ask(http.MethodGet, "/fault/"+d.key, ""); answered {
			h.tally.reads.Add(1)
			if sum := sumOf(a); sum != d.after.sum {
				fail(fmt.Errorf("%s was acknowledged, and then read as %q", d, sum))
				return
			}
		}
	}
}

func (w *objectWriter) done(d *objectWrite, now int64) {
	w.state[d.key] = d.after
	w.history[d.key] = append(w.history[d.key], objectVersion{d.after, d.sent, now})
}

// look finds out whether a lost write was done.
func (w *objectWriter) look(h *harness, ask asker) error {
	d := w.lost
	a, answered := ask(http.MethodGet, "/fault/"+d.key, "")
	if !answered {
		return nil
	}
	switch sum := sumOf(a); sum {
	case d.after.sum:
		w.done(d, h.clock.Add(1))
	case d.before.sum:
		w.state[d.key] = d.before
	default:
		return fmt.Errorf("%s was not answered, and there is %q", d, sum)
	}
	w.lost = nil
	return nil
}

// Sizes of bodies: those above the setting inline are on storage nodes.
const (
	inlineBody = 16 << 10
	firstPart  = 5 << 20 // bytes of every part but the last
)

// next chooses a write. There are few keys, so that most writes replace an object.
func (w *objectWriter) next() *objectWrite {
	d := &objectWrite{key: fmt.Sprintf("w%d/%d", w.n, w.choose.IntN(6))}
	d.before = w.state[d.key]
	d.after = d.before
	switch n := w.choose.IntN(20); {
	case n < 4:
		d.kind, d.after = "delete", object{}
	case n < 6 && d.before.sum != "":
		d.kind, d.parts = "create", []string{"never"} // refused
	case n < 9:
		d.kind, d.parts = "upload", []string{w.body(inlineBody + 1 + w.choose.IntN(50_000))}
		if w.of.parts && w.choose.IntN(6) == 0 {
			d.parts = append([]string{w.body(firstPart)}, d.parts...)
		}
		d.after = objectOf(d.parts)
	case n < 15:
		d.kind, d.parts = "put", []string{w.body(w.choose.IntN(inlineBody))}
		d.after = objectOf(d.parts)
	default:
		most := 40_000
		if w.of.large {
			most = 400_000 // several chunks
		}
		d.kind, d.parts = "put", []string{w.body(inlineBody + 1 + w.choose.IntN(most))}
		d.after = objectOf(d.parts)
	}
	return d
}

// body returns a body that no other object has.
func (w *objectWriter) body(size int) string {
	w.serial++
	text := make([]byte, size)
	seed := [32]byte{byte(w.n), byte(w.n >> 8), byte(w.serial), byte(w.serial >> 8), byte(w.serial >> 16)}
	_, _ = rand.NewChaCha8(seed).Read(text) // never fails
	return string(text)
}

func objectOf(parts []string) (o object) {
	for _, p := range parts {
		if len(p) > inlineBody {
			o.bodies++
		}
	}
	o.sum = md5Hex(strings.Join(parts, ""))
	return o
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// sumOf returns the MD5 of a body that was read; "" if there is no object.
func sumOf(a binary.Answer) string {
	switch a.Status {
	case http.StatusOK:
		return md5Hex(a.Body)
	case http.StatusNotFound:
		return ""
	}
	return fmt.Sprintf("%d %s", a.Status, a.Body)
}

// uploadID matches the ID of an upload that was created.
var uploadID = regexp.MustCompile(`<UploadId>(.*)</UploadId>`)

// do sends the requests of a write, until one is not answered.
func (d *objectWrite) do(ask asker) (a binary.Answer, answered bool, err error) {
	at := "/fault/" + d.key
	expect := func(status int, method, target, body string, headers ...string) bool {
		if a, answered = ask(method, target, body, headers...); answered && a.Status != status {
			err = fmt.Errorf("%s: %d %s, want %d", method, a.Status, a.Body, status)
		}
		return answered && err == nil
	}
	switch d.kind {
	case "delete":
		expect(http.StatusNoContent, http.MethodDelete, at, "")
	case "create":
		expect(http.StatusPreconditionFailed, http.MethodPut, at, d.parts[0], "If-None-Match: *")
	case "put":
		if expect(http.StatusOK, http.MethodPut, at, d.parts[0]) && a.Header.Get("ETag") != `"`+d.after.sum+`"` {
			err = fmt.Errorf("the entity tag is %s, want %s", a.Header.Get("ETag"), d.after.sum)
		}
	case "upload":
		if !expect(http.StatusOK, http.MethodPost, at+"?uploads", "") {
			break
		}
		found := uploadID.FindStringSubmatch(a.Body)
		if found == nil {
			return a, true, fmt.Errorf("no ID of the upload: %s", a.Body)
		}
		var list bytes.Buffer
		for i, part := range d.parts {
			if !expect(http.StatusOK, http.MethodPut, fmt.Sprintf("%s?partNumber=%d&uploadId=%s", at, i+1, found[1]), part) {
				return a, answered, err
			}
			fmt.Fprintf(&list, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, a.Header.Get("ETag"))
		}
		expect(http.StatusOK, http.MethodPost, at+"?uploadId="+found[1], "<CompleteMultipartUpload>"+list.String()+"</CompleteMultipartUpload>")
	}
	return a, answered, err
}

// get reads an object outside of a round.
func (w *objectWriter) get(h *harness, key string) string {
	h.t.Helper()
	a, err := w.of.send(h, h.server, http.MethodGet, "/fault/"+key, "")
	if err != nil {
		h.t.Errorf("GET %s: %v", key, err)
	}
	return sumOf(a)
}

// is expects an object.
func (w *objectWriter) is(h *harness, key string, want object) {
	h.t.Helper()
	if got := w.get(h, key); got != want.sum {
		h.t.Errorf("%s has the MD5 %q, and was acknowledged with %q", key, got, want.sum)
	}
}

// wasAt expects a version that was current at one moment of a span of the clock.
func (w *objectWriter) wasAt(h *harness, key string, begun, ended int64) {
	h.t.Helper()
	got := w.get(h, key)
	possible := []string{""} // before the first write
	for _, v := range w.history[key] {
		if v.acknowledged < begun {
			possible = nil
		}
		if v.sent <= ended {
			possible = append(possible, v.sum)
		}
	}
	if slices.Contains(possible, got) {
		return
	}
	if w.lost == nil || w.lost.key != key || got != w.lost.after.sum {
		h.t.Errorf("%s has in the copy the MD5 %q, expected one of %q", key, got, possible)
	}
}
