//test:unraced the race detector makes it ten times as slow

package obs_test

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/obs"
)

func TestNewLog(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log, err := obs.NewLog(&b, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("quiet")
	log.Warn("loud", "n", 1)
	if got := b.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud","n":1`) {
		t.Errorf("log %q", got)
	}
	for _, wrong := range [][2]string{{"loud", "text"}, {"info", "xml"}} {
		if _, err := obs.NewLog(&b, wrong[0], wrong[1]); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics("1.2.3", "abc")
	m.Request("syncstorage", "bso", "PUT", 200, time.Millisecond)
	m.Database("syncstorage", "sqlite")("sync.put", time.Millisecond, errcode.New(errcode.Quota, "full"))
	m.Database("tokenserver", "sqlite")("users.sign_in", time.Millisecond, errors.New("boom"))
	m.Groups("syncstorage")(3, time.Millisecond, 2*time.Millisecond)
	m.Groups("syncstorage")(1, time.Millisecond, 0) // failed before its commit
	m.WillSweep("expired", time.Hour, time.Unix(1000, 0))
	m.Sweep("expired", 7, nil, time.Unix(2000, 500e6))
	m.Sweep("expired", 0, errors.New("boom"), time.Unix(3000, 0))
	m.Counter("holdfast_test_total", "A test.", "kind").WithLabelValues("x").Inc()
	m.Gauge("holdfast_test_load", "A test.", func(tell func(float64, ...string)) { tell(0.5) })
	m.Total("holdfast_test_seen_total", "A test.", func(tell func(float64, ...string)) {
		tell(2, "a")
		tell(3, "b")
	}, "by")

	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`holdfast_build_info{commit="abc",version="1.2.3"} 1`,
		`holdfast_http_request_duration_seconds_count{method="PUT",route="bso",service="syncstorage",status="200"} 1`,
		`holdfast_db_statement_duration_seconds_count{engine="sqlite",outcome="quota",service="syncstorage",statement="sync.put"} 1`,
		`holdfast_db_statement_duration_seconds_count{engine="sqlite",outcome="internal",service="tokenserver",statement="users.sign_in"} 1`,
		`holdfast_sweep_rows_total{sweep="expired"} 7`,
		`holdfast_sweep_rounds_total{outcome="ok",sweep="expired"} 1`,
		`holdfast_sweep_rounds_total{outcome="internal",sweep="expired"} 1`,
		`holdfast_sweep_last_success_timestamp_seconds{sweep="expired"} 2000.5`,
		`holdfast_sweep_interval_seconds{sweep="expired"} 3600`,
		`holdfast_db_group_writes_sum{service="syncstorage"} 4`,
		`holdfast_db_group_wait_seconds_count{service="syncstorage"} 2`,
		`holdfast_db_commit_duration_seconds_count{service="syncstorage"} 1`,
		`holdfast_test_total{kind="x"} 1`,
		`holdfast_test_load 0.5`,
		`# TYPE holdfast_test_seen_total counter`,
		`holdfast_test_seen_total{by="b"} 3`,
		`process_resident_memory_bytes`,
	} {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("no %s", line)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	m := obs.NewMetrics("1.2.3", "abc")
	statement := m.Database("syncstorage", "sqlite")
	b.Run("request", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Request("syncstorage", "bso", "PUT", 200, time.Millisecond)
		}
	})
	b.Run("statement", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			statement("sync.put", time.Millisecond, nil)
		}
	})
	group := m.Groups("syncstorage")
	b.Run("group", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			group(3, time.Millisecond, time.Millisecond)
		}
	})
}
