package ext_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/ext"
)

// outage is a line of the table that the TypeScript client's tests play, too; see there for its members.
type outage struct {
	Name   string
	Outage []phase
	Tokens string
	Least  float64
	Most   int
	Late   float64
	Error  string
}

type phase struct {
	Lost, Hangs, TokensLost, Token bool
	Status                         int
	Code, Body, RetryAfter         string
	Seconds                        float64
	Requests                       int
	Sleeps                         int // not played: the clock of a test does not run ahead of its timers
}

// outageServer has change 1, then an outage, then change 2.
type outageServer struct {
	*outage

	t        *testing.T
	failures []time.Time
	healed   time.Time
	phase    int // -1 before the outage
	began    time.Time
	requests int
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// current returns the phase, or nil before and after the outage. token is the request's, or "".
func (s *outageServer) current(token string) *phase {
	for s.phase >= 0 && s.phase < len(s.Outage) {
		p := &s.Outage[s.phase]
		end := s.began.Add(seconds(p.Seconds))
		over := p.Seconds > 0 && !time.Now().Before(end)
		if !over && (p.Requests == 0 || s.requests < p.Requests) && (!p.Token || token == "" || token == "token 1") {
			return p
		}
		s.healed = time.Now()
		if over {
			s.healed = end
		}
		s.begin()
	}
	return nil
}

func (s *outageServer) begin() {
	s.phase++
	s.began, s.requests = time.Now(), 0
}

func (s *outageServer) fail() {
	s.failures = append(s.failures, time.Now())
	s.requests++
}

var errUnreachable = &net.OpError{Op: "dial", Err: errors.New("network is unreachable")}

func (s *outageServer) token(ctx context.Context) (string, error) {
	if p := s.current(""); p != nil && p.TokensLost {
		s.fail()
		return "", errUnreachable
	}
	if ext.RefusedToken(ctx) == "" || s.Tokens == "same" {
		return "token 1", nil
	}
	return "token 2", nil
}

// RoundTrip implements http.RoundTripper.
func (s *outageServer) RoundTrip(r *http.Request) (*http.Response, error) {
	since := r.URL.Query().Get("since")
	if s.phase < 0 {
		s.begin()
		return s.changes(since, 1), nil
	}
	p := s.current(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if p == nil {
		return s.changes(since, 2), nil
	}
	s.fail()
	switch {
	case p.Lost:
		return nil, errUnreachable
	case p.Hangs:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case p.Code != "":
		return response(p, fmt.Sprintf(`{"error":{"code":%q,"message":"the test refuses it","requestId":"r"}}`, p.Code)), nil
	}
	return response(p, p.Body), nil
}

func response(p *phase, body string) *http.Response {
	header := http.Header{}
	if p.RetryAfter != "" {
		header.Set("Retry-After", p.RetryAfter)
	}
	return &http.Response{StatusCode: p.Status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

// changes returns a response with one change, if the request is for it.
func (s *outageServer) changes(since string, seq int) *http.Response {
	if since != fmt.Sprint(seq-1) {
		s.t.Errorf("since is %s before change %d", since, seq)
	}
	const form = `{"changes":[{"seq":%d,"op":"put","namespace":"settings","key":"k","revision":%[1]d,"at":"2000-01-01T00:00:00Z"}],"nextSince":%[1]d}`
	return response(&phase{Status: http.StatusOK}, fmt.Sprintf(form, seq))
}

// TestOutages plays each outage to Watch.
func TestOutages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../clients/typescript/test/outages.json")
	if err != nil {
		t.Fatal(err)
	}
	var outages []*outage
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&outages); err != nil || len(outages) < 20 {
		t.Fatalf("%d outages: %v", len(outages), err)
	}
	for _, o := range outages {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { play(t, o) })
		})
	}
}

func play(t *testing.T, o *outage) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := &outageServer{outage: o, t: t, phase: -1}
	c := must[*ext.Client](t)(ext.New("http://server.example", s.token))
	c.HTTP = &http.Client{Transport: s}
	retried := 0
	c.OnRetry = func(error, time.Duration) { retried++ }
	var seqs []int64
	var last error
	for change, err := range c.Install(uuid()).Watch(ctx, 0) {
		if last = err; err != nil {
			break
		}
		if seqs = append(seqs, change.Seq); len(seqs) == 2 {
			break
		}
	}
	ended, want := time.Now(), []int64{1, 2}
	if o.Error != "" {
		want = want[:1]
		e, ok := errors.AsType[*ext.Error](last)
		if !ok || string(e.Code) != strings.TrimSuffix(o.Error, "UNKNOWN") {
			t.Errorf("it ends with %v, want %s", last, o.Error)
		}
	} else if last != nil || ended.Sub(s.healed) > seconds(o.Late) {
		t.Errorf("%v after the outage: %v", ended.Sub(s.healed), last)
	}
	if !slices.Equal(seqs, want) {
		t.Errorf("changes %v, want %v", seqs, want)
	}
	if n := len(s.failures); n < 1 || n > o.Most || retried > n {
		t.Fatalf("%d failed requests, %d retries, want at most %d", n, retried, o.Most)
	}
	second := append(s.failures, ended)[1]
	if wait := second.Sub(s.failures[0]); wait < seconds(o.Least) {
		t.Errorf("the second request after %v, want %v", wait, seconds(o.Least))
	}
}
