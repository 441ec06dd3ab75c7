package settings

import (
	"encoding/base64"
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

// Bounds for a webhook's key, in bytes, by Standard Webhooks.
const (
	minWebhookKey = 24
	maxWebhookKey = 64
)

var errWebhookSecret = errors.New(`must be whsec_ and the Base64 of 24 to 64 random bytes, as printed by: echo "whsec_$(openssl rand -base64 32)"`)

// WebhookKey decodes a secret as Standard Webhooks writes it: whsec_ and Base64, with padding.
func WebhookKey(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || len(key) < minWebhookKey || len(key) > maxWebhookKey || strings.ContainsAny(encoded, "\r\n") {
		return nil, errWebhookSecret
	}
	return key, nil
}

// WebhookSecrets returns the secrets that sign requests: the current secret and the former secrets, or none
// without a current secret.
func WebhookSecrets(secret string, old []string) []string {
	if secret == "" {
		return nil
	}
	return append([]string{secret}, old...)
}

// CheckWebhookSecrets validates a webhook's secrets, which may be empty. setting is "" if the current secret is wrong, and
// "old_" if a former secret is.
func CheckWebhookSecrets(secret string, old []string) (setting string, err error) {
	if secret == "" && len(old) > 0 {
		return "old_", errors.New("there is no current secret: requests are unsigned")
	}
	if secret != "" {
		if _, err := WebhookKey(secret); err != nil {
			return "", err
		}
	}
	for _, o := range old {
		if _, err := WebhookKey(o); err != nil {
			return "old_", err
		}
	}
	return "", nil
}
