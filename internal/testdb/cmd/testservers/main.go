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
// contains it. go test gets -exec "testservers exec", which notes the processor time of a package's tests. If
// TEST_BUDGETS is fail, packages that used over a fifth more than test/budgets.txt allows are tested again, alone, and fail
// the run if they use it again; if it is write, the file gets this run's figures.
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
	switch {
	case len(args) > 0 && args[0] == "test":
		run, args = goTest, args[1:]
	case len(args) > 0 && args[0] == "exec":
		run, args = execTest, args[1:]
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
	env := append(os.Environ(), "TEST_ENGINE_LOG="+log, "TEST_TIMES="+times, testdb.MeasurePace())

	for _, s := range servers {
		if os.Getenv(s.variable) != "" || !testdb.UsesEngine(s.engine) {
			continue
		}
		value, remove, err := s.start()
		switch {
		case errors.Is(err, s.absent): // the tests report it
		case err != nil:
			return 0, fmt.Errorf("%s is installed but does not start: %w", s.name, err)
		default:
			defer remove()
			env = append(env, s.variable+"="+value)
		}
	}
	if code, err = command(args, env); err != nil {
		return 0, err
	}
	took, err := readTimes(times)
	if err != nil {
		return 0, err
	}
	if len(took) > 0 {
		mode := os.Getenv("TEST_BUDGETS")
		if code != 0 { // the figures of a failed run say little
			mode = ""
		}
		b := budgets{path: budgetFile, set: testdb.Set(), again: func(name string) (float64, error) { return testAgain(name, took) }}
		err = summary(os.Stdout, took)
		grown, over := b.check(os.Stdout, mode, processorTimes(took))
		if grown {
			code = 1
		}
		err = errors.Join(err, over)
	}
	return code, errors.Join(err, report(os.Stdout, log))
}

// servers are the servers that several test processes share.
var servers = []struct {
	name, engine string
	variable     string // tells the tests where the server is
	absent       error  // start's error if the program is not installed
	start        func() (value string, remove func(), err error)
}{
	{"PostgreSQL", testdb.EnginePostgres, "TEST_POSTGRES_URL", testdb.ErrNotInstalled, func() (string, func(), error) {
		s, err := testdb.StartPostgres(testdb.PostgresOptions{})
		return started(s, err, (*testdb.PostgresServer).URL)
	}},
	{"redis-server", testdb.EngineRedis, "TEST_REDIS_URL", testdb.ErrNoRedis, func() (string, func(), error) {
		s, err := testdb.StartRedis()
		return started(s, err, (*testdb.RedisServer).URL)
	}},
	{"MariaDB", testdb.EngineMariaDB, "TEST_MARIADB_URL", testdb.ErrNoMariaDB, func() (string, func(), error) {
		s, err := testdb.StartMariaDB()
		return started(s, err, (*testdb.MariaDBServer).URL)
	}},
	{"the emulator of Pub/Sub", testdb.EnginePubSub, "TEST_PUBSUB_EMULATOR", testdb.ErrNoPubSub, func() (string, func(), error) {
		s, err := testdb.StartPubSub()
		return started(s, err, (*testdb.BrokerServer).Address)
	}},
	{"nats-server", testdb.EngineNATS, "TEST_NATS", testdb.ErrNoNATS, func() (string, func(), error) {
		s, err := testdb.StartNATS()
		return started(s, err, (*testdb.BrokerServer).Address)
	}},
	{"the emulator of Spanner", testdb.EngineSpanner, "TEST_SPANNER_EMULATOR", testdb.ErrNoEmulator, func() (string, func(), error) {
		s, err := testdb.StartSpanner()
		return started(s, err, (*testdb.SpannerServer).Host)
	}},
}

// started returns the value of a server's variable, and its end, unless it did not start.
func started[S interface{ Remove() }](server S, err error, value func(S) string) (string, func(), error) {
	if err != nil {
		return "", nil, err
	}
	return value(server), server.Remove, nil
}

// command runs a command and forwards signals to it, so that the servers stop after the tests.
func command(args, env []string) (code int, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	return forward(cmd, signals)
}

// forward runs a command, sends it the signals, and returns its exit code.
func forward(cmd *exec.Cmd, signals <-chan os.Signal) (code int, err error) {
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
