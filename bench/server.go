package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a running `holdfast serve` with a folder of its own and settings as
// shipped, but for addresses and the database.
type server struct {
	binary string
	dir    string
	admin  string
	env    []string
	cmd    *exec.Cmd
	ended  chan struct{}
	users  []credentials // of the works; a batch makes more
	next   int64         // uid
}

// serve starts the server and waits until it is ready. The database is the
// embedded one when its URL is empty.
func serve(ctx context.Context, binary, database string) (*server, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{binary: binary, dir: dir, next: 1}
	if err := s.launch(ctx, database); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *server) launch(ctx context.Context, database string) error {
	listen, err := freePort()
	if err != nil {
		return err
	}
	admin, err := freePort()
	if err != nil {
		return err
	}
	s.admin = "http://" + admin
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") && !strings.HasPrefix(kv, "SYNC_") {
			s.env = append(s.env, kv)
		}
	}
	s.env = append(s.env, "HOLDFAST_DATA="+filepath.Join(s.dir, "data"),
		"HOLDFAST_SERVER__LISTEN="+listen, "HOLDFAST_SERVER__ADMIN_LISTEN="+admin)
	if database != "" {
		s.env = append(s.env, "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+database)
	}
	log, err := os.Create(s.log())
	if err != nil {
		return err
	}
	defer log.Close() // the server has its own handle
	s.cmd = exec.Command(s.binary, "serve")
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = s.env, log, log
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // the log says more
		close(s.ended)
	}()
	if err := s.await(ctx, "/livez"); err != nil {
		return err
	}
	if database != "" {
		if _, err := s.run(ctx, "migrate"); err != nil {
			return err
		}
	}
	return s.await(ctx, "/readyz")
}

func (s *server) log() string { return filepath.Join(s.dir, "log") }

func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// await asks the admin listener until it answers with 200.
func (s *server) await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := s.ask(ctx, path, ""); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.ended:
			log, _ := os.ReadFile(s.log())
			return fmt.Errorf("the server ended:\n%s", log)
		case <-ctx.Done():
			return fmt.Errorf("%s does not become 200: %w", path, ctx.Err())
		}
	}
}

// ask is a request to the admin listener.
func (s *server) ask(ctx context.Context, path, token string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+path, http.NoBody) //nolint:gosec // our own server's address
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, err
}

// run runs another command of the binary on the same data.
func (s *server) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.binary, args...) //nolint:gosec // the one who runs it says which
	cmd.Env = s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("holdfast %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out, err
}

// user makes credentials for a user that has nothing yet.
func (s *server) user(ctx context.Context) (c credentials, err error) {
	out, err := s.run(ctx, "sync", "token", "--uid", strconv.FormatInt(s.next, 10), "--duration", "86400")
	if err != nil {
		return c, err
	}
	s.next++
	return c, json.Unmarshal(out, &c)
}

// fill makes the users of the works and the records that these read.
func (s *server) fill(ctx context.Context) error {
	for range users {
		u, err := s.user(ctx)
		if err != nil {
			return err
		}
		s.users = append(s.users, u)
		if err := fillUser(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

func fillUser(ctx context.Context, u credentials) error {
	c, err := dial(ctx, u)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	posts := []struct {
		collection string
		records    int
	}{{putCollection, putRecords}, {postCollection, postRecords}, {listCollection, listRecords}}
	for _, p := range posts {
		for from := 0; from < p.records; from += 100 {
			if _, err := c.send(ctx, http.MethodPost, "/storage/"+p.collection, list(from, 100), ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// stop ends the server in good order and removes its folder.
func (s *server) stop() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
	}
	return os.RemoveAll(s.dir) //nolint:gosec // a folder that serve has made
}

// window measures a work for so long.
func (s *server) window(ctx context.Context, w *work, callers int, d time.Duration) (got sample, err error) {
	all := make([]*caller, callers)
	for i := range all {
		if all[i], err = dial(ctx, s.users[i]); err != nil {
			return got, err
		}
		defer all[i].conn.Close()
	}
	before, err := s.cpu()
	if err != nil {
		return got, err
	}
	took, elapsed, err := drive(ctx, callers, d, func(ctx context.Context, c, i int) error {
		_, err := all[c].send(ctx, w.method, w.path(i), w.body, w.records)
		return err
	})
	if err != nil {
		return got, err
	}
	after, err := s.cpu()
	return summary(took, elapsed, after-before), err
}
