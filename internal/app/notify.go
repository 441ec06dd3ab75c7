package app

import (
	"errors"
	"net"
)

// notify sends the state of the server to the service manager by sd_notify(3), which
// Type=notify of systemd waits for. A failure is only logged, because the manager has
// its own timeout.
func (a *App) notify(state string) {
	if a.manager == "" {
		return
	}
	if err := send(a.manager, state); err != nil {
		a.log.Warn("could not notify the service manager", "state", state, "error", err)
	}
}

// send writes one datagram to a Unix socket. The name of an abstract socket begins
// with @.
func send(socket, text string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(text))
	return errors.Join(err, conn.Close())
}
