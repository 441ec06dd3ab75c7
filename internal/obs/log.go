package obs

import (
	"io"
	"log/slog"

	"holdfast/internal/errcode"
)

// NewLog returns a log with a level (debug, info, warn, error) and format (text, json). It returns errcode.Invalid
// for other values.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.LevelVar
	if err := SetLevel(&least, level); err != nil {
		return nil, err
	}
	return NewLogAt(w, &least, format)
}

// SetLevel sets a log's level. It returns errcode.Invalid for an unknown level.
func SetLevel(at *slog.LevelVar, level string) error {
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return errcode.New(errcode.Invalid, "invalid log level: expected debug, info, warn or error")
	}
	return nil
}

// NewLogAt is like NewLog, but with a variable level.
func NewLogAt(w io.Writer, least *slog.LevelVar, format string) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, errcode.New(errcode.Invalid, "invalid log format: expected text or json")
}
