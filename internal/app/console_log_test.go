package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestConsoleLog(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) { t.Parallel(); consoleLog(t, format) })
	}
}

func consoleLog(t *testing.T, format string) {
	t.Helper()
	a, browse := openConsole(t, "HOLDFAST_LOG__FORMAT="+format)
	const hostile = `"><script>alert(1)</script>` + "\x1b[31m\n\u202e"
	a.log.Info("a quiet line", "n", 1)
	a.log.With("service", "buckets").Warn("body lost", "text", hostile, "token", a.Config().Server.AdminToken)
	a.log.Error(hostile, "long", strings.Repeat("x", 100_000))
	o, v := browse(a.Config().Server.AdminToken.Reveal()), browse(viewerToken)
	for _, session := range []*operator{o, v} {
		page := session.want("the log", http.StatusOK, "a quiet line", http.MethodGet, "/console/log", nil)
		for _, want := range []string{"&lt;script&gt;", "body lost", `hx-get="/console/log"`, "In memory: ", `<option value="warn"`, "console sign-in"} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s in\n%.5000s", want, page)
			}
		}
		for _, not := range []string{"<script>alert", "\x1b", "\u202e", a.Config().Server.AdminToken.Reveal(), strings.Repeat("x", 9000)} {
			if strings.Contains(page, not) {
				t.Errorf("the page has %.40q", not)
			}
		}
	}
	for _, c := range []struct{ query, has, hasNot string }{
		{"level=warn", "body lost", "a quiet line"},
		{"level=error", "xxxxx", "body lost"},
		{"service=buckets", "body lost", "a quiet line"},
		{"service=server", "a quiet line", "body lost"},
		{"text=A+QUIET", "a quiet line", "body lost"},
		{"text=script", "body lost", "a quiet line"},
		{"level=error&service=buckets", "No line in memory matches", "body lost"},
		{"text=%3Cb%3E", `value="&lt;b&gt;"`, "<b>"},
	} {
		page := o.want(c.query, http.StatusOK, c.has, http.MethodGet, "/console/log?"+c.query, nil)
		if strings.Contains(page, c.hasNot) {
			t.Errorf("%s: the page has %q", c.query, c.hasNot)
		}
	}
	o.want("a wrong level", http.StatusBadRequest, "Level: expected debug, info, warn or error", http.MethodGet, "/console/log?level=loud", nil)

	all, _ := a.overview.Log.Lines()
	for _, one := range all {
		if one.Message == "request" {
			t.Errorf("a request of the console is in memory: %+v", one)
		}
	}
	var draining atomic.Bool
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/log?service=buckets&limit=1", nil)
	r.Host, r.RemoteAddr = "127.0.0.1:8001", "127.0.0.1:50000"
	r.Header.Set("Authorization", "Bearer "+a.Config().Server.AdminToken.Reveal())
	a.adminHandler(&draining).ServeHTTP(w, r)
	var got struct {
		Lines []struct{ Level, Service, Message, Attributes string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Lines) != 1 || got.Lines[0].Message != "body lost" || got.Lines[0].Level != "warn" || strings.Contains(got.Lines[0].Attributes, a.Config().Server.AdminToken.Reveal()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
