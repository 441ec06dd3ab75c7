package e2e

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/test/binary"
)

// typed is a command as the guide prints it, and its answer.
type typed struct{ command, answer string }

// sessions are the blocks of a text that are typed: those of sh as they are, and
// those of console, in which "$ " begins a command, which goes on in indented
// lines, and what follows is its answer.
func sessions(text string) (all []typed) {
	for _, block := range regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		if block[1] == "sh" {
			all = append(all, typed{command: block[2]})
			continue
		}
		for _, one := range strings.Split("\n"+block[2], "\n$ ")[1:] {
			lines := strings.Split(one, "\n")
			n := 1
			for n < len(lines) && strings.HasPrefix(lines[n], "    ") {
				n++
			}
			all = append(all, typed{strings.Join(lines[:n], "\n"), strings.Join(lines[n:], "\n")})
		}
	}
	return all
}

// What differs from run to run.
var (
	varies  = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|Ratelimit-[A-Za-z]+: \d+`)
	spacing = regexp.MustCompile(`\s+`)
)

// answers reports whether got is what the guide prints: … stands for anything,
// and white space for none, since the guide breaks lines.
func (c *typed) answers(got string) bool {
	plain := func(s string) string { return spacing.ReplaceAllString(varies.ReplaceAllString(s, "«varies»"), "") }
	want := strings.ReplaceAll(regexp.QuoteMeta(plain(c.answer)), "…", ".*")
	return regexp.MustCompile("(?s)^" + want + "$").MatchString(plain(got))
}

// TestGuide types what the guide of extension storage has its readers type, in
// one shell and in its order, and holds what comes against what is printed.
func TestGuide(t *testing.T) {
	t.Parallel()
	shell, _ := binary.Program(t, "sh"), binary.Program(t, "curl")
	text, err := os.ReadFile(filepath.FromSlash("../../docs/extension-storage.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := sessions(string(text))
	if len(commands) < 50 {
		t.Fatalf("%d commands", len(commands))
	}
	folder := t.TempDir()
	s := binary.Start(t, filepath.Join(folder, "holdfast-data"), "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0")
	host := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	listeners := []string{"127.0.0.1:8000", host(s.URL), "127.0.0.1:8001", host(s.Admin), "127.0.0.1:8002", host(internalURL(t, s))}
	const end = "\n\x1e\n" // of each answer
	script := "holdfast() { '" + binary.Path() + "' \"$@\"; }\n" +
		"head() { until test -s \"$3\"; do sleep 0.05; done; command head \"$@\"; }\n" // the audit comes a little later
	for _, c := range commands {
		script += c.command + "\nprintf '\\n\\036\\n'\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*binary.Bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell)
	cmd.Env, cmd.Dir, cmd.WaitDelay = s.Env, folder, time.Second
	cmd.Stdin = strings.NewReader(strings.NewReplacer(listeners...).Replace(script))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i := 0; i < len(listeners); i += 2 {
		listeners[i], listeners[i+1] = listeners[i+1], listeners[i]
	}
	answers := strings.Split(strings.NewReplacer(listeners...).Replace(string(out)), end)
	if len(answers) != len(commands)+1 {
		t.Fatalf("%d answers to %d commands:\n%s", len(answers)-1, len(commands), out)
	}
	for i := range commands {
		if c := &commands[i]; !c.answers(answers[i]) {
			t.Errorf("$ %s\nanswers\n%s\nand the guide says\n%s", c.command, answers[i], c.answer)
		}
	}
}
