package testdb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// startTimeout bounds initdb and the start of a server.
const startTimeout = time.Minute

// daemon is a server that this process started, with a folder of its own.
//
// It ends with this process, however that ends: a small shell process holds
// the reading end of a pipe, and when the writing end closes it kills the
// server and removes the folder. A death signal (PR_SET_PDEATHSIG) would not
// do: it is sent when the thread ends that started the child, and Go ends
// threads when it likes.
type daemon struct {
	dir        string // holds the log and what else the server has
	attr       *syscall.SysProcAttr
	stop, kill syscall.Signal // end it in good order, and as a crash does

	watch  *exec.Cmd
	pipe   io.WriteCloser // lines: the pid to kill, or an empty line for none
	server *exec.Cmd
	exited chan struct{} // closed when server has ended
}

// watchScript kills the last pid that it read, and cleans up, when its input
// ends. The server may be a child of init by then, and not every init reaps,
// so the wait for its end is bounded.
const watchScript = `
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
	kill -"$2" "$pid" 2>/dev/null
	kill -CONT "$pid" 2>/dev/null # a test may have stopped it
	i=0
	while [ $i -lt 100 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; i=$((i+1)); done
fi
rm -rf "$1"`

// guard starts the watching process, which comes before the server.
func (d *daemon) guard() (err error) {
	d.watch = exec.Command("/bin/sh", "-c", watchScript, "sh", d.dir, strconv.Itoa(int(d.kill)))
	d.watch.SysProcAttr = d.attr
	d.watch.Dir = "/"
	if d.pipe, err = d.watch.StdinPipe(); err != nil {
		return err
	}
	return d.watch.Start()
}

// run starts the server's program, which writes to the log.
func (d *daemon) run(program string, args ...string) error {
	log, err := os.OpenFile(d.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// A file, not a pipe: go test waits for whoever holds its own output.
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = d.attr, "/", log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	d.server, d.exited = cmd, exited
	go func() {
		// How it ended says nothing that the log does not.
		_ = cmd.Wait()
		close(exited)
	}()
	if _, err := fmt.Fprintln(d.pipe, cmd.Process.Pid); err != nil {
		return errors.Join(err, d.Kill())
	}
	return nil
}

func (d *daemon) log() string { return filepath.Join(d.dir, "log") }

// await returns when the server answers, or says why it does not.
func (d *daemon) await(answers func() error) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := answers()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-d.exited:
			log, _ := os.ReadFile(d.log())
			return fmt.Errorf("the server ended at once:\n%s", log)
		case <-deadline.C:
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// PID is the server's first process; 0 when it does not run.
func (d *daemon) PID() int {
	if d.server == nil {
		return 0
	}
	return d.server.Process.Pid
}

// Ended is closed when the server has ended, whoever ended it.
func (d *daemon) Ended() <-chan struct{} { return d.exited }

// Stop ends the server in good order; Start brings it back.
func (d *daemon) Stop() error { return d.end(d.stop) }

// Kill ends the server as a crash does; Start brings it back.
func (d *daemon) Kill() error { return d.end(d.kill) }

func (d *daemon) end(sig os.Signal) error {
	if d.server == nil {
		return nil
	}
	if err := d.server.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-d.exited
	d.server = nil
	_, err := fmt.Fprintln(d.pipe)
	return err
}

// Remove ends the server and deletes its data.
func (d *daemon) Remove() {
	// Whatever fails here, the watching process ends what is left.
	_ = d.Kill()
	_ = d.pipe.Close()
	_ = d.watch.Wait()
}
