package harness

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const contentionClients = 64

// StartContention starts several servers on one database. They receive the requests in turn.
func StartContention(t *testing.T, of Service, servers int, data string, vars ...string) *Harness {
	t.Helper()
	h := New(t, []Service{of}, false, data, append(vars, "HOLDFAST_LOG__ACCESS=false")...)
	spread := &spread{next: &http.Transport{MaxIdleConnsPerHost: contentionClients}}
	for range servers {
		h.Server = h.Serve()
		spread.hosts = append(spread.hosts, strings.TrimPrefix(h.Server.URL, "http://"))
	}
	h.Client = &http.Client{Timeout: 2 * Bound, Transport: spread}
	t.Cleanup(spread.next.CloseIdleConnections)
	return h
}

func ContentionTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("FAULT_MINUTE")
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	Must(t, err)
	return d
}

// InWaves repeatedly starts all clients at once. A client that is still busy skips the next wave.
func InWaves(t *testing.T, waves int, period time.Duration, burst func(client, wave int) error) {
	t.Helper()
	turns := make([]chan int, contentionClients)
	var clients sync.WaitGroup
	for i := range turns {
		turns[i] = make(chan int, 1)
		clients.Go(func() {
			for wave := range turns[i] {
				if err := burst(i, wave); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for wave := range waves {
		for _, turn := range turns {
			select {
			case turn <- wave:
			default:
			}
		}
		<-tick.C
		if t.Failed() {
			break
		}
	}
	for _, turn := range turns {
		close(turn)
	}
	clients.Wait()
}

// spread sends requests to several servers in turn. The signature and the Host header contain the last server's
// address.
type spread struct {
	next  *http.Transport
	hosts []string
	count atomic.Int64
}

func (s *spread) RoundTrip(r *http.Request) (*http.Response, error) {
	to := *r.URL
	to.Host = s.hosts[int(s.count.Add(1))%len(s.hosts)]
	sent := *r
	sent.URL, sent.Host = &to, r.URL.Host
	return s.next.RoundTrip(&sent)
}

// History lists requests with their times. Requests may overlap.
type History []porcupine.Operation

// checkBound limits the search for an order of a user's requests. If the search does not finish, the result is
// unknown.
const checkBound = 20 * time.Second

// Disorder explains why a history is not linearizable, or returns "".
func Disorder(m porcupine.Model, h History) string {
	result, info := porcupine.CheckOperationsVerbose(m, h, checkBound)
	if result == porcupine.Ok {
		return ""
	}
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	state := m.Init()
	placed := map[any]bool{}
	for _, o := range longest {
		_, state = m.Step(state, o.Input, o.Output)
		placed[o.Metadata] = true
	}
	rest := slices.DeleteFunc(slices.Clone(h), func(o porcupine.Operation) bool { return placed[o.Metadata] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d of %d requests have an order, to\n  %+v\n", result, len(longest), len(h), state)
	lines := func(what string, ops []porcupine.Operation) {
		for _, o := range ops {
			fmt.Fprintf(&text, "  %s %v to %v: client %d %+v: %+v\n", what, time.Duration(o.Call), time.Duration(o.Return), o.ClientId, o.Input, o.Output)
		}
	}
	lines("placed", longest[max(0, len(longest)-10):])
	lines("no place", rest[:min(len(rest), 20)])
	return text.String()
}
