// Package systemd speaks with the service manager that has started the server: it reports the state of the server, and takes the
// sockets that systemd keeps open while the server restarts.
package systemd

import (
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Manager is the service manager that has started a server. The zero value means that none has.
type Manager struct {
	Watchdog time.Duration // it restarts a server from which it hears nothing for so long; 0: never
	Sockets  Sockets

	notifies bool
}

// FromEnvironment returns the service manager that the variables of this process name. It is called once, at the start of a server.
func FromEnvironment() (m Manager, err error) {
	m.notifies = true
	if m.Watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
		return m, fmt.Errorf("WATCHDOG_USEC, WATCHDOG_PID: %w", err)
	}
	m.Sockets, err = passed()
	return m, err
}

// Notify reports the state of the server, such as READY=1, by sd_notify(3).
func (m *Manager) Notify(state string) error {
	if !m.notifies {
		return nil
	}
	_, err := daemon.SdNotify(false, state)
	return err
}

// Reload reports that the server reads its configuration again while fn runs.
func (m *Manager) Reload(fn func()) error {
	err := m.Notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	fn()
	return errors.Join(err, m.Notify(daemon.SdNotifyReady))
}
