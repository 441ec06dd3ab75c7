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

	// TailRefused and TailRefusedBytes limit the lines of Tail.Refused.
	TailRefused      = 500
	TailRefusedBytes = 256 << 10
)

// Tail is a log output that keeps its newest lines in memory.
type Tail struct {
	Skip func(line []byte) bool // may be nil

	to io.Writer

	mu      sync.Mutex
	all     ring // all lines
	refused ring // see Refused
}

// ring keeps the newest lines within two limits.
type ring struct {
	maxLines, maxBytes int

	lines []string // oldest at first; "" is a dropped line
	first int
	bytes int // in lines
}

// NewTail returns a log output that also writes to another.
func NewTail(to io.Writer) *Tail {
	return &Tail{to: to, all: ring{maxLines: TailLines, maxBytes: TailBytes}, refused: ring{maxLines: TailRefused, maxBytes: TailRefusedBytes}}
}

// Refused returns an output for lines about refused requests, which are only kept in memory. They have their own limits,
// so that a client that is refused again and again does not displace other lines.
func (t *Tail) Refused() io.Writer { return refusedOutput{t} }

type refusedOutput struct{ *Tail }

// Write keeps one line. It never fails.
func (o refusedOutput) Write(line []byte) (int, error) {
	o.keep(&o.refused, line)
	return len(line), nil
}

// Write takes one line per call, as slog writes.
func (t *Tail) Write(line []byte) (int, error) {
	n, err := t.to.Write(line) // without the lock: the output may be slow
	if t.Skip != nil && t.Skip(line) {
		return n, err
	}
	t.keep(&t.all, line)
	return n, err
}

// keep stores a line, cut and made valid.
func (t *Tail) keep(in *ring, line []byte) {
	text := strings.ToValidUTF8(string(line[:min(len(line), maxTailLine)]), string(utf8.RuneError))
	t.mu.Lock()
	defer t.mu.Unlock()
	in.keep(text)
}

// keep stores a line and drops the oldest above the limits.
func (r *ring) keep(line string) {
	if r.bytes += len(line); len(r.lines) < r.maxLines {
		r.lines = append(r.lines, line)
	} else {
		r.bytes -= len(r.lines[r.first])
		r.lines[r.first] = line
		r.first = (r.first + 1) % r.maxLines
	}
	for at := r.first; r.bytes > r.maxBytes; at++ {
		old := &r.lines[at%len(r.lines)]
		r.bytes -= len(*old)
		*old = ""
	}
}

// newest returns the lines, newest first.
func (r *ring) newest() (texts []string) {
	for i := range r.lines {
		if text := r.lines[(r.first+i)%len(r.lines)]; text != "" {
			texts = append(texts, text)
		}
	}
	slices.Reverse(texts)
	return texts
}

// Line is a parsed log line.
type Line struct {
	At         time.Time
	Level      slog.Level
	Service    string // "" means the server itself
	Message    string
	Status     int    // HTTP status of a request, or 0
	Error      string // attribute error, or ""
	Attributes string // the others as name=value, separated by spaces
}

// Lines returns the lines in memory, newest first, and their size in bytes.
func (t *Tail) Lines() (all []Line, size int) {
	t.mu.Lock()
	texts, refused := t.all.newest(), t.refused.newest()
	size = t.all.bytes + t.refused.bytes
	t.mu.Unlock()
	for _, text := range texts {
		all = append(all, parseLine(strings.TrimSuffix(text, "\n")))
	}
	if len(refused) == 0 {
		return all, size
	}
	for _, text := range refused {
		all = append(all, parseLine(strings.TrimSuffix(text, "\n")))
	}
	slices.SortStableFunc(all, func(a, b Line) int { return b.At.Compare(a.At) })
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
		case "error":
			l.Error = value
		case "status":
			l.Status, _ = strconv.Atoi(value)
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
