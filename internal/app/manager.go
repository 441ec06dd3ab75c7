package app

import (
	"context"
	"time"
)

// notify reports the state of the server to the service manager, which Type=notify of systemd waits for. A failure is only
// logged, because the manager has its own timeout.
func (a *App) notify(state string) {
	if err := a.manager.Notify(state); err != nil {
		a.log.Warn("could not notify the service manager", "state", state, "error", err)
	}
}

// watch tells the service manager that the process runs, until ctx ends. It sends no request to the listeners: many clients
// would delay the answer, and a restart would not help them.
func (a *App) watch(ctx context.Context) {
	if a.manager.Watchdog <= 0 {
		return
	}
	ticks := time.NewTicker(a.manager.Watchdog / 3)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			a.notify("WATCHDOG=1")
		case <-ctx.Done():
			return
		}
	}
}
