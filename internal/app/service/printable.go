package service

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable escapes, as JSON does (\u001b), characters that are not displayed as themselves, e.g. line breaks, ESC or
// bidirectional controls. Otherwise a client-chosen name could imitate another or alter the text around it.
func Printable(s string) string { return escape(s, "") }

// PrintableLines keeps line breaks and tabs.
func PrintableLines(s string) string { return escape(s, "\n\t") }

// escape escapes characters that are neither shown nor in keep.
func escape(s, keep string) string {
	isFine := func(r rune) bool { return isShown(r) || strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !isFine(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case isFine(r):
			b.WriteString(s[:size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
		s = s[size:]
	}
	return b.String()
}

// Joiners have no text direction, and some scripts and emoji need them.
const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

// isShown rejects control characters, direction marks, line separators and unassigned characters.
func isShown(r rune) bool { return unicode.IsGraphic(r) || r == nonJoiner || r == joiner }

// Columns is tab-separated text that a Printer does not escape.
type Columns string

// printable escapes texts in Printf's arguments; numbers pass unchanged.
func printable(args []any) []any {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a
		v := reflect.ValueOf(a)
		switch {
		case !v.IsValid() || v.CanInt() || v.CanUint() || v.CanFloat() || v.Kind() == reflect.Bool:
			continue
		case v.Type() == reflect.TypeFor[Columns]():
			all[i] = v.String()
			continue
		}
		switch a := a.(type) {
		case error, fmt.Stringer:
			all[i] = Printable(fmt.Sprint(a))
		case []byte:
			all[i] = Printable(string(a))
		default:
			if v.Kind() == reflect.String {
				all[i] = Printable(v.String())
			}
		}
	}
	return all
}

// Printer aligns tab-separated columns.
type Printer struct{ w *tabwriter.Writer }

// Printf escapes the texts in args, so that a name cannot add columns or rows.
func (t *Printer) Printf(format string, args ...any) (int, error) {
	return fmt.Fprintf(t.w, format, printable(args)...)
}

// Row prints cells as a row of the table.
func (t *Printer) Row(cells ...any) error {
	for i, cell := range cells {
		separator := Columns("\t")
		if i == len(cells)-1 {
			separator = "\n"
		}
		if _, err := t.Printf("%v%s", cell, separator); err != nil {
			return err
		}
	}
	return nil
}

// Flush aligns and prints the rows since the last Flush.
func (t *Printer) Flush() error { return t.w.Flush() }

// Table prints to standard output; the caller must flush it.
func (s *Shell) Table() *Printer { return NewPrinter(s.Stdout) }

func NewPrinter(w io.Writer) *Printer { return &Printer{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)} }

// Printf prints to standard output and escapes the texts in args, which may come from users.
func (s *Shell) Printf(format string, args ...any) (int, error) {
	return fmt.Fprintf(s.Stdout, format, printable(args)...)
}

// printableJSON escapes invisible characters in JSON, where they only occur in strings.
type printableJSON struct{ to io.Writer }

func (p printableJSON) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.to, PrintableLines(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (s *Shell) encode(v any, indent string) error {
	e := json.NewEncoder(printableJSON{s.Stdout}) // writes the whole value at once
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// TimeOf returns the zero time for 0.
func TimeOf[M interface {
	~int64
	Time() time.Time
}](m M) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return m.Time()
}
