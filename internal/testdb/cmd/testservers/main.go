// Command testservers runs a command, such as go test, with the servers that tests need:
//
//	testservers -- go test ./...
//
// It starts the servers missing from the environment that the set of tests uses, sets package testdb's variables, and
// forwards signals. At the end it prints the slowest packages and tests, and for each engine how many tests ran on it or
// why none did, and returns the command's exit code.
//
//	testservers test [ARGUMENTS OF GO TEST]
//
// runs go test, prints what it prints, and notes for the summary how long packages and tests took. The command above
// contains it.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"holdfast/internal/testdb"
)

func main() {
	run := run
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "test" {
		run, args = goTest, args[1:]
	}
	code, err := run(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testservers:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return 0, errors.New("usage: testservers -- COMMAND [ARGUMENTS]")
	}
	dir, err := os.MkdirTemp("", "holdfast-tests-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := filepath.Join(dir, "engines")
	times := filepath.Join(dir, "times")
	env := append(os.Environ(), "TEST_ENGINE_LOG="+log, "TEST_TIMES="+times)

	if os.Getenv("TEST_POSTGRES_URL") == "" {
		server, err := testdb.StartPostgres(testdb.PostgresOptions{})
		switch {
		case errors.Is(err, testdb.ErrNotInstalled): // the tests report it
		case err != nil:
			return 0, fmt.Errorf("PostgreSQL is installed but does not start: %w", err)
		default:
			defer server.Remove()
			env = append(env, "TEST_POSTGRES_URL="+server.URL())
		}
	}
	if os.Getenv("TEST_REDIS_URL") == "" {
		server, err := testdb.StartRedis()
		switch {
		case errors.Is(err, testdb.ErrNoRedis):
		case err != nil:
			return 0, fmt.Errorf("redis-server is installed but does not start: %w", err)
		default:
			defer server.Remove()
			env = append(env, "TEST_REDIS_URL="+server.URL())
		}
	}
	if os.Getenv("TEST_MARIADB_URL") == "" && testdb.UsesEngine(testdb.EngineMariaDB) {
		server, err := testdb.StartMariaDB()
		switch {
		case errors.Is(err, testdb.ErrNoMariaDB):
		case err != nil:
			return 0, fmt.Errorf("MariaDB is installed but does not start: %w", err)
		default:
			defer server.Remove()
			env = append(env, "TEST_MARIADB_URL="+server.URL())
		}
	}
	for _, b := range []struct {
		name, engine, variable string
		start                  func() (*testdb.BrokerServer, error)
	}{
		{"the emulator of Pub/Sub", testdb.EnginePubSub, "TEST_PUBSUB_EMULATOR", testdb.StartPubSub},
		{"nats-server", testdb.EngineNATS, "TEST_NATS", testdb.StartNATS},
	} {
		if os.Getenv(b.variable) != "" || !testdb.UsesEngine(b.engine) {
			continue
		}
		server, err := b.start()
		switch {
		case errors.Is(err, testdb.ErrNoPubSub), errors.Is(err, testdb.ErrNoNATS):
		case err != nil:
			return 0, fmt.Errorf("%s is installed but does not start: %w", b.name, err)
		default:
			defer server.Remove()
			env = append(env, b.variable+"="+server.Address())
		}
	}
	address, remove, err := startSpanner()
	if err != nil {
		return 0, err
	}
	defer remove()
	env = append(env, address...)
	if code, err = command(args, env); err != nil {
		return 0, err
	}
	return code, errors.Join(summary(os.Stdout, times), report(os.Stdout, log))
}

// startSpanner starts the emulator if the tests need it and it is installed, and returns its variable.
func startSpanner() (env []string, remove func(), err error) {
	if os.Getenv("TEST_SPANNER_EMULATOR") != "" || !testdb.UsesEngine(testdb.EngineSpanner) {
		return nil, func() {}, nil
	}
	server, err := testdb.StartSpanner()
	switch {
	case errors.Is(err, testdb.ErrNoEmulator):
		return nil, func() {}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("the emulator of Spanner is installed but does not start: %w", err)
	}
	return []string{"TEST_SPANNER_EMULATOR=" + server.Host()}, server.Remove, nil
}

// command runs a command and forwards signals to it, so that the servers stop after the tests.
func command(args, env []string) (code int, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			// From a terminal the command gets the signal twice, and the second signal makes go test stop
			// immediately.
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return max(exit.ExitCode(), 1), nil // -1 if ended by a signal
			}
			return 0, err
		}
	}
}
