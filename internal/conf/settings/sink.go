package settings

import (
	"errors"
	"net/url"
	"strings"
)

// Sinks are the values that CheckSink accepts, for documentation.
const Sinks = "file:PATH, log, memory, an http or https URL"

// CheckSink rejects a setting that does not say where events are published.
func CheckSink(setting string) error {
	if setting == "log" || setting == "memory" {
		return nil
	}
	if path, ok := strings.CutPrefix(setting, "file:"); ok {
		if path == "" {
			return errors.New("expected a path after file:")
		}
		return nil
	}
	u, err := url.Parse(setting)
	if err != nil || u.Host == "" {
		return errors.New("expected " + Sinks)
	}
	switch u.Scheme {
	case "http", "https":
		return nil
	}
	return errors.New("expected " + Sinks)
}
