//test:unraced its goroutines share nothing

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "engines")
	lines := []string{
		"sqlite\tran\t/a\tTestOne",
		"sqlite\tran\t/a\tTestOne",
		"sqlite\tran\t/b\tTestOne",
		"citus\tabsent\t/a\tset TEST_CITUS_URL",
	}
	if err := os.WriteFile(log, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report(&out, log); err != nil {
		t.Fatal(err)
	}
	want := "sqlite    2 tests ran\n" +
		"postgres  no test ran: none uses it\n" +
		"citus     no test ran: set TEST_CITUS_URL\n" +
		"spanner   no test ran: none uses it\n" +
		"pgbouncer no test ran: none uses it\n" +
		"redis     no test ran: none uses it\n" +
		"pubsub    no test ran: none uses it\n" +
		"nats      no test ran: none uses it\n" +
		"mariadb   no test ran: none uses it\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestExitCodeIsTheCommands(t *testing.T) {
	t.Parallel()
	code, err := command([]string{"sh", "-c", `test "$X" = y && exit 7`}, append(os.Environ(), "X=y"))
	if err != nil || code != 7 {
		t.Errorf("code %d, %v", code, err)
	}
}
