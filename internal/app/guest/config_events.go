package guest

import (
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/conf/settings"
	"holdfast/internal/guest"
)

// Events holds the event settings in the section [guest].
type Events struct {
	Sink      string        `toml:"events" secret:"true" doc:"Where events are published. memory: nowhere, they only stay in the database for keep_events. log: the server's log. file:PATH: a file, a line of JSON for each. An http or https URL: a webhook that gets CloudEvents. pubsub://PROJECT/TOPIC: Google Pub/Sub. nats://HOST:PORT/TOPIC: NATS JetStream."`
	Source    string        `toml:"event_source" doc:"The source of the events, a URI reference. Servers of one front end have the same."`
	Secret    string        `toml:"event_secret" secret:"true" doc:"Signs the requests to a webhook, as Standard Webhooks describes it. Empty: they are not signed."`
	Receive   string        `toml:"receive" secret:"true" doc:"Where events about tenants are received: pubsub://PROJECT/TOPIC/SUBSCRIPTION or nats://HOST:PORT/TOPIC/SUBSCRIPTION. Empty: none are received."`
	Keep      time.Duration `toml:"keep_events" reload:"true" doc:"How long events are kept after they were published. At least 24h."`
	KeepAudit time.Duration `toml:"keep_audit_events" reload:"true" doc:"How long events of the retention class audit are kept after they were published. At least 720h."`
	Attempts  int           `toml:"event_attempts" doc:"After so many refusals an event is set aside, and the next ones of its session are published. Events of the class audit are never set aside."`
}

const (
	minKeepEvents = 24 * time.Hour
	minKeepAudit  = 30 * 24 * time.Hour
)

func defaultEvents() Events {
	return Events{Sink: "memory", Source: "/bff/consumer", Keep: minKeepAudit, KeepAudit: minKeepAudit, Attempts: 10}
}

// Check reports every invalid setting.
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
	if e.Secret != "" && len(e.Secret) < guest.MinSecret {
		problems.Addf("event_secret", "must have at least %d bytes", guest.MinSecret)
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
