package settings

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

var errSink = errors.New("expected memory, log, file:PATH, http://…, https://…, pubsub://PROJECT/TOPIC or nats://HOST:PORT/TOPIC")

// CheckSink validates a target for published events.
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

// CheckSubscription validates a source of received events.
func CheckSubscription(setting string) error {
	if !isBroker(setting, 2) {
		return errors.New("expected pubsub://PROJECT/TOPIC/SUBSCRIPTION or nats://HOST:PORT/TOPIC/SUBSCRIPTION")
	}
	return nil
}

// IsBroker reports whether a setting names a message broker's topic.
func IsBroker(setting string) bool { return isBroker(setting, 1) }

// brokerName matches names that both brokers allow (Pub/Sub: 3 to 255 characters, beginning with a letter).
var brokerName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._~+%-]{2,254}$`)

// isBroker reports whether a URL has so many names in its path.
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
