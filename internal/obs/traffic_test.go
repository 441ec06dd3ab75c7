package obs

import (
	"net/http"
	"testing"
	"time"
)

func TestTraffic(t *testing.T) {
	t.Parallel()
	m := NewMetrics("dev", "")
	if got := m.Traffic(); got.Requests != 0 || got.Quantile(.99) != 0 {
		t.Errorf("at the start: %+v", got)
	}
	m.Request("s", "r", http.MethodGet, http.StatusInternalServerError, time.Hour)
	before := m.Traffic()
	for range 98 {
		m.Request("s", "r", http.MethodGet, http.StatusOK, 3*time.Millisecond)
	}
	m.Request("s", "r", http.MethodGet, http.StatusServiceUnavailable, 200*time.Millisecond)
	m.Request("s", "r", http.MethodGet, http.StatusOK, time.Hour)
	got := m.Traffic().Since(before)
	if got.Requests != 100 || got.Errors != 1 || got.Quantile(.5) != .005 || got.Quantile(.99) != .25 || got.Quantile(1) != 60 {
		t.Errorf("%+v: %g, %g, %g", got, got.Quantile(.5), got.Quantile(.99), got.Quantile(1))
	}
}
