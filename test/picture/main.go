// Command picture draws docs/images/terminal.svg: it starts bin/holdfast in a temporary folder, types the README's
// first commands, and shows the output.
//
//	make build && go run ./test/picture
package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// commands are the README's commands after `make run`.
const commands = `TENANT=5a1e0f6c-93d7-4c2b-8f64-0b7d21c9e3a8 INSTALL=0f9e1c52-7d34-4b86-a1f0-3c5d8e2b7a41
TOKEN=$(bin/holdfast ext tokens create --tenant $TENANT --install $INSTALL --namespace settings=rw)
RECORDS=http://127.0.0.1:8000/ext/v1/installs/$INSTALL/namespaces/settings/records
curl -s -X PUT -H "Authorization: Bearer $TOKEN" --json '{"value": {"dark": true}}' $RECORDS/theme
`

const (
	columns    = 104
	charWidth  = 8.4
	lineHeight = 19
	margin     = 22
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-picture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Symlink(filepath.Join(root, "bin"), filepath.Join(dir, "bin")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var printed, logged bytes.Buffer
	serve := exec.CommandContext(ctx, "bin/holdfast", "serve")
	serve.Dir, serve.Stdout, serve.Stderr = dir, &printed, &logged
	serve.Cancel = func() error { return serve.Process.Signal(os.Interrupt) }
	if err := serve.Start(); err != nil {
		return err
	}
	typed, err := typeCommands(ctx, dir)
	cancel()
	if ended := serve.Wait(); err == nil && ended != nil && !errors.Is(ended, context.Canceled) {
		err = ended
	}
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, &printed, &logged)
	}
	lines := append([]string{"$ make run"}, banner(strings.ReplaceAll(printed.String(), dir, "."))...)
	return os.WriteFile("docs/images/terminal.svg", draw(append(append(lines, ""), typed...)), 0o644)
}

func banner(printed string) (lines []string) {
	for line := range strings.Lines(printed) {
		if line = strings.TrimRight(line, "\r\n"); !strings.HasPrefix(line, "time=") {
			lines = append(lines, line)
		}
	}
	return lines
}

func typeCommands(ctx context.Context, dir string) (lines []string, err error) {
	for {
		resp, err := http.Get("http://127.0.0.1:8000/__heartbeat__")
		if err == nil {
			resp.Body.Close()
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	for command := range strings.Lines(commands) {
		lines = append(lines, "$ "+strings.TrimSpace(command))
	}
	out, err := exec.CommandContext(ctx, "sh", "-c", "cd "+dir+" && "+commands).CombinedOutput()
	return append(lines, strings.Split(strings.TrimSpace(string(out)), "\n")...), err
}

func draw(lines []string) []byte {
	var rows []string
	for _, line := range lines {
		runes := []rune(line)
		for len(runes) > columns {
			rows, runes = append(rows, string(runes[:columns])), append([]rune("  "), runes[columns:]...)
		}
		rows = append(rows, string(runes))
	}
	var b bytes.Buffer
	width, height := columns*charWidth+2*margin, len(rows)*lineHeight+2*margin+24
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label="Holdfast in a terminal">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="10" fill="#1d2129"/>`+"\n")
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="20" r="6" fill="%s"/>`+"\n", margin+20*i, colour)
	}
	fmt.Fprintf(&b, `<g font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="#d5dae3" xml:space="preserve">`+"\n")
	for i, row := range rows {
		colour := ""
		if strings.HasPrefix(row, "$ ") {
			colour = ` fill="#8fd694"`
		}
		if strings.TrimSpace(row) == "" {
			continue
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%.0f"%s>`, margin, margin+24+(i+1)*lineHeight-5, float64(len([]rune(row)))*charWidth, colour)
		_ = xml.EscapeText(&b, []byte(row)) // a buffer never fails
		b.WriteString("</text>\n")
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}
