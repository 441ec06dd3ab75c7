// Package systemd reports the server's state to the service manager, and takes the sockets that systemd keeps open
// during a restart.
package systemd

import (
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Manager is the service manager that started the server, if any.
type Manager struct {
	Watchdog time.Duration // restart the server after this much silence; 0 means never
	Sockets  Sockets

	notifies bool
}

// FromEnvironment reads the service manager from the environment, once at the start.
func FromEnvironment() (m Manager, err error) {
	m.notifies = true
	if m.Watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
		return m, fmt.Errorf("WATCHDOG_USEC, WATCHDOG_PID: %w", err)
	}
	m.Sockets, err = passed()
	return m, err
}

func (m *Manager) Notify(state string) error {
	if !m.notifies {
		return nil
	}
	_, err := daemon.SdNotify(false, state)
	return err
}

func (m *Manager) Reload(fn func()) error {
	err := m.Notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	fn()
	return errors.Join(err, m.Notify(daemon.SdNotifyReady))
}
