package app

import (
	"errors"
	"net"
)

// notify tells the service manager that started the server how far it is: the
// datagram of sd_notify(3), which Type=notify of systemd waits for. A manager
// that was not told gives up in its own time, so a failure is only logged.
func (a *App) notify(state string) {
	if a.manager == "" {
		return
	}
	if err := send(a.manager, state); err != nil {
		a.log.Warn("could not notify the service manager", "state", state, "error", err)
	}
}

// send writes one datagram to a Unix socket, whose name begins with @ when it
// has no file.
func send(socket, text string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(text))
	return errors.Join(err, conn.Close())
}
