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

// Printable returns a text with the characters escaped that a terminal or a browser does not
// show as themselves, such as a line break, ESC, or one that reverses the direction of the
// text: \n, \u001b, \u202e, as in JSON. Otherwise a name that a client has chosen could look
// like another one, or change what is around it. Every table and page shows names by it.
func Printable(s string) string { return escape(s, "") }

// PrintableLines is Printable for a text of several lines, which keeps line breaks and tabs.
func PrintableLines(s string) string { return escape(s, "\n\t") }

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

// The joiners, which have no direction and which some scripts and emoji need.
const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

// isShown reports whether a character is shown as itself: it is not a control character,
// a mark of a direction, a separator of lines, or unassigned.
func isShown(r rune) bool { return unicode.IsGraphic(r) || r == nonJoiner || r == joiner }

// Columns is a text with tabs between columns, which a Printer prints as it is.
type Columns string

// printable returns the arguments of a format with their texts as Printable.
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

// Printer aligns columns that are separated by tabs.
type Printer struct{ w *tabwriter.Writer }

// Printf adds text. The texts in args are printed as Printable, so that a name cannot add
// columns or rows.
func (t *Printer) Printf(format string, args ...any) (int, error) {
	return fmt.Fprintf(t.w, format, printable(args)...)
}

// Row adds a row, as Printf does.
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

// Flush prints the table.
func (t *Printer) Flush() error { return t.w.Flush() }

// Table returns a Printer for columns. The caller must flush it.
func (s *Shell) Table() *Printer { return NewPrinter(s.Stdout) }

// NewPrinter returns a table that is printed to w.
func NewPrinter(w io.Writer) *Printer { return &Printer{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)} }

// Printf prints to the standard output. The texts in args are printed as Printable.
func (s *Shell) Printf(format string, args ...any) (int, error) {
	return fmt.Fprintf(s.Stdout, format, printable(args)...)
}

// printableJSON is a writer of JSON that escapes what is not shown as itself, which can only
// occur in strings.
type printableJSON struct{ to io.Writer }

func (p printableJSON) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.to, PrintableLines(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// encode prints a value as JSON.
func (s *Shell) encode(v any, indent string) error {
	e := json.NewEncoder(printableJSON{s.Stdout}) // it writes the whole value at once
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// TimeOf returns the time of a moment, and the zero time for the moment 0.
func TimeOf[M interface {
	~int64
	Time() time.Time
}](m M) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return m.Time()
}
