package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/workload/desync"
)

// A proxy that misunderstands a request may wait for more of it, so the attacker waits no longer for answers.
const desyncTime = 1500 * time.Millisecond

// TestDesync sends ambiguous requests through each proxy, each with a second request behind or inside. The server must not
// serve a request whose answer the proxy does not give to its sender: it would give it to the next client, whose request
// would get the answer meant for the attacker. The server returns each request's X-Request-Id.
func TestDesync(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := p.build(t, "https://example.org", nil, "HOLDFAST_LOG__ACCESS=true", "HOLDFAST_LOG__FORMAT=json")
			cases := desync.Cases()
			answered := make([][]string, len(cases))
			work := make(chan int)
			var attacking sync.WaitGroup
			for range 8 {
				attacking.Go(func() {
					for i := range work {
						answered[i] = s.attack(t, i, &cases[i])
						s.victim(t, i)
					}
				})
			}
			for i := range cases {
				work <- i
			}
			close(work)
			attacking.Wait()
			s.victim(t, len(cases))
			served := s.served(t)
			right := 0
			for i, d := range cases {
				if n := served[second(i)]; n > 1 || n == 1 && !slices.Contains(answered[i], second(i)) {
					t.Errorf("%s: the server served the second request %d times, and its sender got %q", d.Name, n, answered[i])
				}
				if d.Second && slices.Equal(answered[i], []string{first(i), second(i)}) {
					right++
				}
			}
			if right < leastRight {
				t.Errorf("only %d of the requests without ambiguity, and those behind them, were answered", right)
			}
		})
	}
}

// leastRight is how many cases without ambiguity all these proxies forward. Some refuse extensions or trailers.
const leastRight = 8

func first(i int) string  { return fmt.Sprintf("first-request-%d", i) }
func second(i int) string { return fmt.Sprintf("second-request-%d", i) }

// attack sends a case on its own connection, and returns the answers' IDs.
func (s *site) attack(t *testing.T, i int, d *desync.Case) (ids []string) {
	conn, err := tls.Dial("tcp", s.address, &tls.Config{ServerName: "example.org", InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer conn.Close()
	text := d.Wire("/1.5/1/info/quota", "example.org\r\nX-Request-Id: "+first(i), "/1.5/1/info/collections")
	// The second request carries its own ID. It may be the body's.
	if last := strings.LastIndex(text, first(i)); strings.Count(text, first(i)) > 1 {
		text = text[:last] + second(i) + text[last+len(first(i)):]
	}
	go func() { _, _ = io.WriteString(conn, text) }() // the proxy may stop reading
	_ = conn.SetReadDeadline(time.Now().Add(desyncTime))
	r := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return ids
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if id := res.Header.Get("X-Request-Id"); id != "" {
			ids = append(ids, id)
		}
		if len(ids) == 2 {
			return ids
		}
	}
}

// victim sends an ordinary request, on a connection to the server that an attack may have used before.
func (s *site) victim(t *testing.T, i int) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.public+"/__heartbeat__", http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	id := fmt.Sprintf("victim-request-%d", i)
	r.Header.Set("X-Request-Id", id)
	res, err := s.client.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	if got := res.Header.Get("X-Request-Id"); got != id || res.StatusCode != http.StatusOK {
		t.Errorf("the answer to %s is %s, of %q", id, res.Status, got)
	}
}

var loggedID = regexp.MustCompile(`"request_id":"([^"]+)"`)

// served stops the server, and counts the requests that it logged.
func (s *site) served(t *testing.T) map[string]int {
	t.Helper()
	s.server.Kill()
	ids := map[string]int{}
	for _, found := range loggedID.FindAllStringSubmatch(s.server.Output.String(), -1) {
		ids[found[1]]++
	}
	return ids
}
