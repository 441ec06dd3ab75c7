package conf

import (
	"fmt"
	"log/slog"
)

// Secret is a text that does not let itself be printed, logged or marshalled.
type Secret string

// Reveal is the text itself.
func (s Secret) Reveal() string { return string(s) }

// String says only whether there is a secret.
func (s Secret) String() string {
	if s == "" {
		return "[not set]"
	}
	return "[set]"
}

// Format is String for every verb: %x and %#v would otherwise show the text.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// LogValue is String, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, for JSON, TOML and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
