package obs

import (
	"io"
	"log/slog"

	"holdfast/internal/errcode"
)

// NewLog returns a log that writes lines at or above a level (debug, info, warn, error)
// in a format (text, json). It returns errcode.Invalid for other values.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, errcode.New(errcode.Invalid, "invalid log level: expected debug, info, warn or error")
	}
	opts := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, errcode.New(errcode.Invalid, "invalid log format: expected text or json")
}
