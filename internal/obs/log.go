package obs

import (
	"io"
	"log/slog"

	"holdfast/internal/fault"
)

// NewLog returns a log that writes lines at or above the level (debug, info,
// warn, error) in a format (text, json). fault.Invalid for others.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fault.New(fault.Invalid, "the log level is not debug, info, warn or error")
	}
	opts := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fault.New(fault.Invalid, "the log format is not text or json")
}
