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

const startTimeout = 5 * time.Minute

// daemon is a server started by this process, with its own folder.
//
// It always ends with this process: a shell reads from a pipe and at EOF kills the server and removes the folder. A
// death signal (PR_SET_PDEATHSIG) does not work: it is sent when the thread that started the child ends, and Go ends
// threads at any time.
type daemon struct {
	dir        string
	attr       *syscall.SysProcAttr
	stop, kill syscall.Signal

	watch  *exec.Cmd
	pipe   io.WriteCloser // each line is the PID to kill, or empty
	server *exec.Cmd
	exited chan struct{}
}

// watchScript kills the last PID read and removes the folder at EOF. By then the server may be a child of init, which
// may not reap it, so the script waits for it only a limited time.
const watchScript = `
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
	kill -"$2" "$pid" 2>/dev/null
	kill -CONT "$pid" 2>/dev/null # a test may have stopped it
	i=0
	while [ $i -lt 100 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; i=$((i+1)); done
fi
rm -rf "$1"`

// guard must be called before run.
func (d *daemon) guard() (err error) {
	d.watch = exec.Command("/bin/sh", "-c", watchScript, "sh", d.dir, strconv.Itoa(int(d.kill)))
	d.watch.SysProcAttr = d.attr
	d.watch.Dir = "/"
	if d.pipe, err = d.watch.StdinPipe(); err != nil {
		return err
	}
	return d.watch.Start()
}

// run starts the program with its output in a file.
func (d *daemon) run(program string, args ...string) error {
	log, err := os.OpenFile(d.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// The output is a file, not a pipe: go test waits for all processes that hold its output open.
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = d.attr, "/", log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	d.server, d.exited = cmd, exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	if _, err := fmt.Fprintln(d.pipe, cmd.Process.Pid); err != nil {
		return errors.Join(err, d.Kill())
	}
	return nil
}

func (d *daemon) log() string { return filepath.Join(d.dir, "log") }

// await calls answers until it succeeds or the program ends.
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
			return fmt.Errorf("the server exited during its start:\n%s", log)
		case <-deadline.C:
			return fmt.Errorf("the server does not respond: %w", err)
		}
	}
}

// PID returns the process, or 0 if it does not run.
func (d *daemon) PID() int {
	if d.server == nil {
		return 0
	}
	return d.server.Process.Pid
}

// Ended is closed when the program ended.
func (d *daemon) Ended() <-chan struct{} { return d.exited }

// Stop ends the server as its service manager would.
func (d *daemon) Stop() error { return d.end(d.stop) }

// Kill ends the server at once, as a crash would.
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

// Remove kills the server and removes its folder.
func (d *daemon) Remove() {
	// If this fails, the watching process cleans up.
	_ = d.Kill()
	_ = d.pipe.Close()
	_ = d.watch.Wait()
}
