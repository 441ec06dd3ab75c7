//test:unraced it takes a minute with the race detector, which make soak PART=race uses

package overview

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/errcode"
	"holdfast/internal/obs"
	"holdfast/internal/web"
)

// TestHistoryMeasuresServersRarely checks that a database server is measured every ten minutes, or every minute until
// its size is known.
func TestHistoryMeasuresServersRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var measured []time.Duration
		start := time.Now()
		server := &engine.Database{Connection: engine.Connection{Where: "server", Size: func(context.Context) (int64, error) {
			measured = append(measured, time.Since(start))
			if time.Since(start) < 2*time.Minute {
				return 0, errcode.New(errcode.Unavailable, "it starts")
			}
			return int64(time.Since(start)), nil
		}}}
		o := &Overview{
			Clock: clock.System, Traffic: obs.NewMetrics("", "").Traffic, Gate: web.NewGate(1, 0),
			Services: []*service.Running{{Opened: &service.Opened{Databases: []*engine.Database{server}}}},
		}
		ctx, stop := context.WithTimeout(t.Context(), 25*time.Minute+time.Second)
		defer stop()
		o.Run(ctx)
		if want := []time.Duration{0, time.Minute, 2 * time.Minute, 10 * time.Minute, 20 * time.Minute}; !slices.Equal(measured, want) {
			t.Errorf("measured after %v", measured)
		}
		for i, p := range o.History.points {
			if size, known := p.Sizes["server"]; known != (i >= 2) || known && size != int64(max(2, i/10*10)*int(time.Minute)) {
				t.Errorf("after %d minutes the size is %v, known: %v", i, time.Duration(size), known)
			}
		}
	})
}
