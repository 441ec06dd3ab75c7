package guest

import (
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
)

// Events holds the event settings in the section [guest].
type Events struct {
	Sink      string        `toml:"events" secret:"true" doc:"Where to publish events: memory (only kept in the database for keep_events), log (the server's log), file:PATH (one JSON line per event), an http or https URL (CloudEvents webhook), pubsub://PROJECT/TOPIC (Google Pub/Sub) or nats://HOST:PORT/TOPIC (NATS JetStream)."`
	Source    string        `toml:"event_source" doc:"Event source, a URI reference. Use the same value on all servers of a front end."`
	Secret    string        `toml:"event_secret" secret:"true" doc:"Signs webhook requests (Standard Webhooks): whsec_ and the Base64 of 24 to 64 random bytes. Empty: unsigned."`
	OldSecret []string      `toml:"old_event_secrets" secret:"true" doc:"Former event secrets, which sign requests, too, until the webhook knows the new one."`
	Receive   string        `toml:"receive" secret:"true" doc:"Where to receive tenant events: pubsub://PROJECT/TOPIC/SUBSCRIPTION or nats://HOST:PORT/TOPIC/SUBSCRIPTION. Empty: disabled."`
	Keep      time.Duration `toml:"keep_events" reload:"true" doc:"How long to keep events after publishing them. At least 24h."`
	KeepAudit time.Duration `toml:"keep_audit_events" reload:"true" doc:"How long to keep events in the audit retention class after publishing them. At least 30d."`
	Attempts  int           `toml:"event_attempts" doc:"Move an event to the dead letters after this many refusals, so that its session's later events can be published. Audit events are never moved."`
}

const (
	// minKeepEvents leaves a day to notice lost events and to replay them; minKeepAudit is a month, for audits.
	minKeepEvents = 24 * time.Hour
	minKeepAudit  = 30 * 24 * time.Hour
)

// defaultEvents keeps events in the database only, so that the service runs without a broker.
func defaultEvents() Events {
	return Events{Sink: "memory", Source: "/bff/consumer", Keep: minKeepAudit, KeepAudit: minKeepAudit, Attempts: 10}
}

// Check checks the form of the sink and the subscription without connecting.
func (e *Events) Check() (problems conf.Problems) {
	if err := settings.CheckSink(e.Sink); err != nil {
		problems.Addf("events", "%s", err.Error())
	}
	if e.Receive != "" {
		if err := settings.CheckSubscription(e.Receive); err != nil {
			problems.Addf("receive", "%s", err.Error())
		}
	}
	if e.Source == "" {
		problems.Addf("event_source", "must not be empty")
	}
	switch old, err := settings.CheckWebhookSecrets(e.Secret, e.OldSecret); {
	case err != nil && old != "":
		problems.Addf("old_event_secrets", "%s", err.Error())
	case err != nil:
		problems.Addf("event_secret", "%s", err.Error())
	}
	if e.Keep < minKeepEvents {
		problems.Addf("keep_events", "must be at least %s", minKeepEvents)
	}
	if e.KeepAudit < minKeepAudit {
		problems.Addf("keep_audit_events", "must be at least %s", minKeepAudit)
	}
	if e.Attempts < 1 {
		problems.Addf("event_attempts", "must be at least 1")
	}
	return problems
}
