package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/web"
)

func TestFailures(t *testing.T) {
	t.Parallel()
	s := start(t, setup{log: quiet})
	c := s.install(t)
	var failure error
	fail := func(context.Context) error { return failure }
	s.store.apply, s.store.get = fail, fail
	const secret = "connect to 10.0.0.1"
	item := &ext.ItemError{Index: 1, Err: &ext.MismatchError{Current: 7}}
	for name, x := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"no code":                        {errors.New(secret), 500, "INTERNAL_ERROR"},
		"internal":                       {errcode.Wrap(errcode.Internal, "a stored answer is not valid", errors.New(secret)), 500, "INTERNAL_ERROR"},
		"away":                           {errcode.Wrap(errcode.Unavailable, "the database is away", errors.New(secret)), 503, "UNAVAILABLE"},
		"away because of what an item's": {errcode.Wrap(errcode.Unavailable, "the request was overtaken too often", item), 503, "UNAVAILABLE"},
		"a conflict that is no client's": {errcode.Wrap(errcode.Conflict, "deadlock", errors.New(secret)), 503, "UNAVAILABLE"},
		"out of time":                    {errcode.Wrap(errcode.Unavailable, "the database is away", context.DeadlineExceeded), 503, "UNAVAILABLE"},
	} {
		failure = x.err
		for _, a := range []*answer{
			c.put("k", `{"value":1}`), c.get(records + "/k"), c.post(records, `{"items":[{"key":"k","value":1}]}`),
			c.post("/batch", `{"ops":[{"op":"delete","namespace":"a","key":"k"}]}`), c.post("/import", `{"namespace":"a","key":"k","value":1}`, lines),
			c.post(records+"/k/increment", `{"pointer":"","by":1,"create":true}`),
		} {
			if a.status != x.status || a.problem().Code != x.code || strings.Contains(a.body, secret) {
				t.Errorf("%s: %s: %d %s", name, a.what, a.status, a.body)
			}
		}
	}
	failure = nil
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	s.store.get = func(context.Context) error { panic("a bug") }
	c.get(records+"/k").fails(500, "INTERNAL_ERROR").has("Access-Control-Allow-Origin", "*")
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, setup{log: quiet, timeout: 20 * time.Millisecond})
	c := s.install(t)
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	s.store.get, s.store.apply = hang, hang
	c.get(records+"/k").fails(503, "UNAVAILABLE")
	c.put("k", `{"value":1}`).fails(503, "UNAVAILABLE")
	c.post("/import", `{"namespace":"a","key":"k","value":1}`, lines).fails(503, "UNAVAILABLE")
	c.runner().ask(`{"operation":"get","namespace":"a","key":"k"}`).fails(503, "UNAVAILABLE")
}

type slow struct {
	io.Reader
	wait <-chan struct{}
}

func (s slow) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == io.EOF {
		<-s.wait
	}
	return n, err
}

func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := start(t, setup{timeout: time.Minute, pace: web.Rate{Grace: 50 * time.Millisecond, BytesPerSecond: 1 << 20}})
	c := s.install(t)
	wait := make(chan struct{})
	defer close(wait)
	r := c.request(http.MethodPut, records+"/k", slow{strings.NewReader(`{"value":`), wait})
	c.sendBy(c.Client(), r).fails(408, "REQUEST_TIMEOUT")
	r = c.request(http.MethodPost, "/import", slow{strings.NewReader(`{"value":`), wait}, lines)
	c.sendBy(c.Client(), r).fails(408, "REQUEST_TIMEOUT")
}

func TestShedding(t *testing.T) {
	t.Parallel()
	s := start(t, setup{log: quiet, gate: web.NewGate(1, time.Nanosecond)})
	c := s.install(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	s.store.get = func(context.Context) error {
		close(inside)
		<-leave
		return nil
	}
	done := make(chan *answer)
	go func() { done <- c.get(records + "/k") }()
	<-inside
	c.get("/usage").fails(503, "UNAVAILABLE").has("Access-Control-Allow-Origin", "*")
	close(leave)
	(<-done).is(http.StatusNotFound)
}

func TestLogQuotesNothing(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := start(t, setup{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	c := s.install(t)
	const mark = "marker"
	c.put(mark+"%2F", `{"value":1}`)
	c.get("/namespaces/" + mark + "_/records/k")
	c.put(mark, `{"value":"`+mark+`","`+mark+`":1}`)
	c.put(mark, `{"value":{"`+mark+`":1,"`+mark+`":1}}`)
	c.put(mark, `{"value":1,"ttlSeconds":"`+mark+`"}`)
	c.put(mark, `{"value":1}`, "If-Match: "+mark)
	c.put(mark, `{"value":1}`, "Content-Type: text/"+mark)
	c.get(records + "?" + mark + "=1&cursor=" + mark)
	c.get(records + "?cursor=" + mark)
	c.post(records+"/"+mark+"/increment", `{"pointer":"`+mark+`","by":1}`)
	c.post(records, `{"items":[{"key":"`+mark+`/","value":1}]}`)
	c.post("/batch", `{"ops":[{"op":"`+mark+`"}]}`)
	c.post("/import", mark, lines)
	c.post("/namespaces/a/schemas", `{"schema":{"type":"`+mark+`"}}`)
	c.with(mark).get(records)
	c.with("").get("/" + mark)
	c.runner().ask(`{"operation":"` + mark + `"}`)
	s.Close() // waits for requests
	s.internal.Close()
	if text := log.String(); strings.Contains(text, mark) || strings.Count(text, "\n") < 17 || strings.Contains(text, c.install) {
		t.Errorf("the log is\n%s", text)
	}
}
