package conf

import (
	"fmt"
	"log/slog"
)

// Secret is a string that cannot be printed, logged or marshalled by accident.
type Secret string

// Reveal returns the text. Do not log it.
func (s Secret) Reveal() string { return string(s) }

// String returns "[set]" or "[not set]".
func (s Secret) String() string {
	if s == "" {
		return "[not set]"
	}
	return "[set]"
}

// Format writes String for every verb, because %x and %#v would show the text.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// LogValue keeps the text out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the text out of JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
