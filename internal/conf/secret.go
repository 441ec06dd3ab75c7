package conf

import (
	"fmt"
	"log/slog"
)

// Secret is a string that cannot be printed, logged or marshalled by accident.
type Secret string

// Reveal returns the string itself.
func (s Secret) Reveal() string { return string(s) }

// String returns only whether the secret is set.
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
