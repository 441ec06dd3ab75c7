package obs

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// These are the limits of a Tail.
const (
	TailLines   = 1000
	TailBytes   = 1 << 20
	maxTailLine = 8 << 10 // bytes kept per line
)

// Tail is a log output that keeps its newest lines in memory.
type Tail struct {
	Skip func(line []byte) bool // may be nil

	to io.Writer

	mu    sync.Mutex
	lines []string // a ring, oldest at first
	first int
	bytes int // in lines
}

// NewTail returns a log output that also writes to another.
func NewTail(to io.Writer) *Tail { return &Tail{to: to} }

// Write takes one line per call, as slog writes.
func (t *Tail) Write(line []byte) (int, error) {
	n, err := t.to.Write(line) // without the lock: the output may be slow
	if t.Skip != nil && t.Skip(line) {
		return n, err
	}
	t.keep(strings.ToValidUTF8(string(line[:min(len(line), maxTailLine)]), string(utf8.RuneError)))
	return n, err
}

// keep stores a line and drops the oldest above the limits.
func (t *Tail) keep(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes += len(line); len(t.lines) < TailLines {
		t.lines = append(t.lines, line)
	} else {
		t.bytes -= len(t.lines[t.first])
		t.lines[t.first] = line
		t.first = (t.first + 1) % TailLines
	}
	for at := t.first; t.bytes > TailBytes; at++ {
		old := &t.lines[at%len(t.lines)]
		t.bytes -= len(*old)
		*old = ""
	}
}

// Line is a parsed log line.
type Line struct {
	At         time.Time
	Level      slog.Level
	Service    string // "" means the server itself
	Message    string
	Attributes string // name=value, separated by spaces
}

// Lines returns the lines in memory, newest first, and their size in bytes.
func (t *Tail) Lines() (all []Line, size int) {
	t.mu.Lock()
	texts := make([]string, 0, len(t.lines))
	for i := range t.lines {
		if text := t.lines[(t.first+i)%len(t.lines)]; text != "" {
			texts = append(texts, text)
		}
	}
	size = t.bytes
	t.mu.Unlock()
	for _, text := range slices.Backward(texts) {
		all = append(all, parseLine(strings.TrimSuffix(text, "\n")))
	}
	return all, size
}

// parseLine parses a line in either format.
func parseLine(text string) (l Line) {
	each := eachText
	if strings.HasPrefix(text, "{") {
		each = eachJSON
	}
	var rest []string
	each(text, func(name, value, raw string) {
		switch name {
		case slog.TimeKey:
			l.At, _ = time.Parse(time.RFC3339Nano, value)
		case slog.LevelKey:
			_ = l.Level.UnmarshalText([]byte(value))
		case slog.MessageKey:
			l.Message = value
		case "service":
			l.Service = value
		default:
			rest = append(rest, raw)
		}
	})
	l.Attributes = strings.Join(rest, " ")
	return l
}

// eachText calls fn with a text line's attributes; raw is unparsed.
func eachText(text string, fn func(name, value, raw string)) {
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		end := strings.IndexByte(text, '=')
		if end < 0 || strings.HasPrefix(text, `"`) { // a quoted name, or part of a truncated value
			fn("", "", text)
			return
		}
		name, value := text[:end], text[end+1:]
		quoted, err := strconv.QuotedPrefix(value)
		switch {
		case err == nil:
			value, _ = strconv.Unquote(quoted)
			end += 1 + len(quoted)
		case strings.HasPrefix(value, `"`):
			value, end = value[1:], len(text)
		default:
			value, _, _ = strings.Cut(value, " ")
			end += 1 + len(value)
		}
		fn(name, value, text[:end])
		text = text[end:]
	}
}

// eachJSON is eachText for a JSON line.
func eachJSON(text string, fn func(name, value, raw string)) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if _, err := d.Token(); err != nil {
		return
	}
	for d.More() {
		from := d.InputOffset()
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			fn("", "", strings.TrimLeft(text[from:], ", "))
			return
		}
		plain := string(value)
		_ = json.Unmarshal(value, &plain) // fails if it is not a string
		key, _ := name.(string)
		fn(key, plain, key+"="+string(value))
	}
}
