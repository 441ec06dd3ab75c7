package httpapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/web/webtest"
)

var (
	record        = flag.Bool("record", false, "write the answers to testdata/recorded.txt instead of comparing them")
	recordChanged = flag.Bool("record-changed", false, "write those that are not as in recorded.txt to testdata/changed.txt")
)

// TestRecordedAnswers checks that the hotel profile answers a script byte for byte like the release before
// profiles, and publishes the same events. testdata/recorded.txt contains that release's answers,
// testdata/changed.txt the intended differences.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := &player{t: t, server: s, receiver: newReceiver(t, s), values: map[string]string{}}
	for _, step := range script {
		p.play(step)
	}
	p.events()
	for _, step := range scriptAfterEvents {
		p.play(step)
	}
	if *record {
		writeSections(t, "testdata/recorded.txt", p.sections)
		return
	}
	was, now := readSections(t, "testdata/recorded.txt"), readSections(t, "testdata/changed.txt")
	if *recordChanged {
		writeSections(t, "testdata/changed.txt", slices.DeleteFunc(p.sections, func(s string) bool { name, got := cutSection(s); return got == was[name] }))
		return
	}
	for _, section := range p.sections {
		name, got := cutSection(section)
		want, changed := now[name]
		if !changed {
			want = was[name]
		}
		if got != want {
			t.Errorf("%s\ngot\n%swant\n%s", name, got, want)
		}
		if changed != changedOnPurpose(name) || changed && want == was[name] {
			t.Errorf("%s is to be in changed.txt and in purposes, or to be as recorded", name)
		}
		delete(was, name)
		delete(now, name)
	}
	if len(was)+len(now) > 0 {
		t.Errorf("recorded, and not played: %v %v", was, now)
	}
}

// purposes maps each intended change to the steps whose answers differ from the recording.
var purposes = map[string][]string{
	"each 422 has the member errors, which says what is wrong with which part of the request": {
		"wrong locale", "wrong currency", "add wish with the key of another", "item that is no UUID", "tenant that is no UUID", "unknown source", "wish that is no object", "no note",
		"viewed no UUID", "search without departure", "search of a crowd", "hotel in no language", "availability without dates", "mint of no UUID", "mint to no tenant",
		"mint with a wrong campaign", "consume without a token",
	},
	"the detail of a stay that is refused names the one wrong member": {"mint of nobody", "mint that ends early", "mint of no date"},
	"the wishlist of a new guest is empty":                            {"wishlist of nobody"},
	"an arrival in the past is refused":                               {"search in the past"},
}

func changedOnPurpose(name string) bool {
	for _, names := range purposes {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// played is a request of the script. {name} in path, body or headers is replaced by a value from an earlier
// answer, see keep.
type played struct {
	name, method, path, body string

	headers []string
	keep    map[string]string // body member by {name}
	other   bool              // sent by another guest
}

type player struct {
	t        *testing.T
	server   *server
	receiver *receiver
	cookies  [2]string
	values   map[string]string
	known    normalizer
	sections []string
}

func (p *player) play(step played) {
	p.t.Helper()
	fill := func(text string) string {
		for name, value := range p.values {
			text = strings.ReplaceAll(text, "{"+name+"}", value)
		}
		return text
	}
	guest, base := 0, p.server.base
	if step.other {
		guest = 1
	}
	target := api + fill(step.path)
	internal := strings.HasPrefix(step.path, "/internal/")
	if internal {
		base, target = p.receiver.base, fill(step.path)
	}
	var body io.Reader
	if step.body != "" {
		body = strings.NewReader(fill(step.body))
	}
	r := webtest.Request(p.t, base, step.method, target, body)
	r.Header.Set("User-Agent", "recorder/1")
	r.Header.Set("Idempotency-Key", `"`+strings.ReplaceAll(step.name, " ", "-")+`"`)
	if p.cookies[guest] != "" && !internal {
		r.Header.Set("Cookie", "gms="+p.cookies[guest])
	}
	if internal {
		r.Header.Set("Authorization", "Bearer "+p.receiver.token("booking", ""))
	}
	for i := range step.headers {
		step.headers[i] = fill(step.headers[i])
	}
	webtest.SetHeaders(r, step.headers...)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		p.cookies[guest] = c.Value
	}
	var members map[string]any
	_ = json.Unmarshal(text, &members)
	for name, member := range step.keep {
		p.values[name], _ = members[member].(string)
	}
	p.add(step.name, fmt.Sprintf("%s %s %s\n%d\n%s%s\n", step.method, step.path, step.body, resp.StatusCode, headersOf(resp.Header), strings.TrimSuffix(string(text), "\n")))
}

func (p *player) events() {
	p.t.Helper()
	if err := p.server.telemetry.Flush(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range p.server.waiting() {
		fmt.Fprintf(&all, "%s %s %s\n", e.Topic, e.Class, e.Payload)
	}
	p.add("events", all.String())
}

func (p *player) add(name, text string) {
	p.sections = append(p.sections, "=== "+name+"\n"+p.known.normalize(text))
}

// headersOf returns the headers that must not change.
func headersOf(h http.Header) string {
	var b strings.Builder
	for _, name := range []string{
		"Allow", "Cache-Control", "Cache-Status", "Content-Type", "Etag", "Idempotency-Replayed", "Location", "Ratelimit", "Ratelimit-Policy", "Retry-After", "Set-Cookie",
		"Vary", "Www-Authenticate", "X-Cache",
	} {
		for _, value := range h.Values(name) {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return b.String()
}

// normalizer replaces values that differ in each run: times, signatures, random cache lifetimes, and IDs, which
// become their prefix and a number.
type normalizer struct{ ids []string }

var (
	formOfID = regexp.MustCompile(`\b(gms|wsh|bhd|srs|mpv|cfe|evt)_[0-9A-HJKMNP-TV-Z]{26}\b`)
	varying  = []struct {
		form *regexp.Regexp
		as   string
	}{
		{regexp.MustCompile(`bh1\.[A-Za-z0-9_.-]+`), "TOKEN"},
		{regexp.MustCompile(`gms=(\S+?)\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*;`), "gms=$1.SIGNATURE;"},
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`), "TIME"},
		{regexp.MustCompile(`"nextCursor":"[A-Za-z0-9_-]+"`), `"nextCursor":"CURSOR"`},
		{regexp.MustCompile(`"keyId":"[^"]+"`), `"keyId":"KEY"`},
		{regexp.MustCompile(`"requestId":"[^"]+"`), `"requestId":"REQUEST"`},
		{regexp.MustCompile(`"traceId":"[^"]+"`), `"traceId":"TRACE"`},
		{regexp.MustCompile(`\b(ttl|max-age)=\d+`), "$1=N"},
	}
)

func (n *normalizer) normalize(text string) string {
	text = formOfID.ReplaceAllStringFunc(text, func(id string) string {
		i := slices.Index(n.ids, id)
		if i < 0 {
			i = len(n.ids)
			n.ids = append(n.ids, id)
		}
		return fmt.Sprintf("%s_%d", id[:3], i+1)
	})
	for _, v := range varying {
		text = v.form.ReplaceAllString(text, v.as)
	}
	return text
}

func cutSection(section string) (name, text string) {
	name, text, _ = strings.Cut(section, "\n")
	return strings.TrimPrefix(name, "=== "), strings.TrimRight(text, "\n") + "\n"
}

func readSections(t testing.TB, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for section := range strings.SplitSeq("\n"+string(text), "\n=== ") {
		if name, body := cutSection(section); name != "" {
			all[name] = body
		}
	}
	return all
}

func writeSections(t testing.TB, file string, sections []string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.Join(sections, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}
