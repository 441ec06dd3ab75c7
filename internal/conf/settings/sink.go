package settings

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

var errSink = errors.New("expected memory, log, file:PATH, http://…, https://…, pubsub://PROJECT/TOPIC or nats://HOST:PORT/TOPIC")

// CheckSink rejects a setting that does not say where events are published.
func CheckSink(setting string) error {
	if setting == "log" || setting == "memory" {
		return nil
	}
	if path, ok := strings.CutPrefix(setting, "file:"); ok {
		if path == "" {
			return errors.New("file: has no path")
		}
		return nil
	}
	if u, err := url.Parse(setting); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return nil
	}
	if !isBroker(setting, 1) {
		return errSink
	}
	return nil
}

// CheckSubscription rejects a setting that does not say where events are received.
func CheckSubscription(setting string) error {
	if !isBroker(setting, 2) {
		return errors.New("expected pubsub://PROJECT/TOPIC/SUBSCRIPTION or nats://HOST:PORT/TOPIC/SUBSCRIPTION")
	}
	return nil
}

// IsBroker reports whether a setting names a topic of a message broker.
func IsBroker(setting string) bool { return isBroker(setting, 1) }

// brokerName is the name of a topic or subscription.
var brokerName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._~+%-]{2,254}$`)

// isBroker reports whether a setting is the URL of a broker with a number of names.
func isBroker(setting string, names int) bool {
	u, err := url.Parse(setting)
	if err != nil || u.Host == "" || u.Scheme != "pubsub" && u.Scheme != "nats" && u.Scheme != "tls" {
		return false
	}
	all := strings.Split(strings.Trim(u.Path, "/"), "/")
	for _, name := range all {
		if !brokerName.MatchString(name) {
			return false
		}
	}
	return len(all) == names
}
