package buckets

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// Notifications select which events are published, and where.
type Notifications struct {
	Rules []NotificationRule `json:"rules,omitempty"`
}

func (n Notifications) IsZero() bool { return len(n.Rules) == 0 }

// NotificationRule is a TopicConfiguration, QueueConfiguration or CloudFunctionConfiguration.
type NotificationRule struct {
	ID      string       `json:"id"`
	Target  Target       `json:"target"`            // the element that the client sent
	ARN     string       `json:"arn"`               // names a configured destination
	Events  []string     `json:"events"`            // e.g. s3:ObjectCreated:*
	Filters []NameFilter `json:"filters,omitempty"` // at most a prefix and a suffix

	// Filtered records that the client sent a Filter element.
	Filtered bool `json:"filtered,omitempty"`
}

// Target is the S3 element that the client used. It has no effect.
type Target string

// Targets in the order in which S3 lists them.
const (
	TargetTopic    Target = "topic"
	TargetQueue    Target = "queue"
	TargetFunction Target = "function"
)

// NameFilter is a condition for object names, as sent by the client.
type NameFilter struct {
	Name  string `json:"name"` // prefix or suffix, in any case
	Value string `json:"value"`
}

// EventName is the name of an S3 event without "s3:".
type EventName string

// Published events.
const (
	EventPut           EventName = "ObjectCreated:Put"
	EventPost          EventName = "ObjectCreated:Post"
	EventCopy          EventName = "ObjectCreated:Copy"
	EventComplete      EventName = "ObjectCreated:CompleteMultipartUpload"
	EventDelete        EventName = "ObjectRemoved:Delete"
	EventMarker        EventName = "ObjectRemoved:DeleteMarkerCreated"
	EventExpired       EventName = "LifecycleExpiration:Delete"
	EventExpiredMarker EventName = "LifecycleExpiration:DeleteMarkerCreated"

	eventTest EventName = "TestEvent" // not allowed in rules
)

// EventNames lists the events that rules may select.
var EventNames = []EventName{EventPut, EventPost, EventCopy, EventComplete, EventDelete, EventMarker, EventExpired, EventExpiredMarker}

const eventPrefix = "s3:"

// eventsOf returns the events that a rule's entry selects, such as s3:ObjectCreated:*; nil if it is not valid.
func eventsOf(entry string) (all []EventName) {
	name, ok := strings.CutPrefix(entry, eventPrefix)
	if !ok {
		return nil
	}
	kind, wild := strings.CutSuffix(name, "*")
	for _, e := range EventNames {
		if string(e) == name || wild && strings.HasSuffix(kind, ":") && strings.HasPrefix(string(e), kind) {
			all = append(all, e)
		}
	}
	return all
}

func (r *NotificationRule) events() (all []EventName) {
	for _, entry := range r.Events {
		all = append(all, eventsOf(entry)...)
	}
	return all
}

// affixes returns the prefix and suffix that names must have.
func (r *NotificationRule) affixes() (prefix, suffix string) {
	for _, f := range r.Filters {
		if strings.EqualFold(f.Name, "prefix") {
			prefix = f.Value
		} else {
			suffix = f.Value
		}
	}
	return prefix, suffix
}

// IsFor reports whether the rule publishes event e for an object.
func (r *NotificationRule) IsFor(e EventName, name string) bool {
	prefix, suffix := r.affixes()
	return strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) && slices.Contains(r.events(), e)
}

// Destination is where events are sent.
type Destination struct {
	Name string // in [buckets.destinations]
	Kind string // webhook, nats or pubsub
}

// ARN returns the name used in rules.
func (d Destination) ARN() string { return "arn:holdfast:" + d.Kind + ":::" + d.Name }

// DestinationOf parses arn:holdfast:KIND:::NAME, or MinIO's arn:minio:sqs:REGION:NAME:KIND.
func DestinationOf(arn string) (d Destination, ok bool) {
	p := strings.Split(arn, ":")
	switch {
	case len(p) != 6 || p[0] != "arn":
		return d, false
	case p[1] == "holdfast" && p[3] == "" && p[4] == "":
		return Destination{p[5], p[2]}, true
	case p[1] == "minio" && p[2] == "sqs":
		return Destination{p[4], p[5]}, true
	}
	return d, false
}

const (
	MaxNotificationRules = 100  // S3's limit
	maxNotificationID    = 255  // bytes, from S3
	maxFilter            = 1024 // bytes, from S3

	MaxRuleEvents = 32 // in a rule
	// MaxNotificationBytes limits the document. It suffices for 100 rules with long filters.
	MaxNotificationBytes = 512 << 10
)

// NotificationError is reported as InvalidArgument with S3's names.
type NotificationError struct {
	Argument, Value, Message string // S3 element or ARN
}

func (e *NotificationError) Error() string { return e.Message }

func (e *NotificationError) Unwrap() error { return errcode.New(errcode.Invalid, e.Message) }

// Check returns nil for rules that are valid together. S3 does not allow rules that select the same event for the same
// name.
func (n *Notifications) Check(destinations []Destination) *NotificationError {
	if len(n.Rules) > MaxNotificationRules {
		return &NotificationError{"Configuration", "", "A bucket can have at most " + strconv.Itoa(MaxNotificationRules) + " notification configurations"}
	}
	ids := map[string]bool{}
	for i := range n.Rules {
		r := &n.Rules[i]
		if ids[r.ID] {
			return &NotificationError{"Id", r.ID, "The IDs of notification configurations must be unique"}
		}
		ids[r.ID] = true
		if invalid := cmp.Or(r.check(), r.checkDestination(destinations)); invalid != nil {
			return invalid
		}
		for j := range i {
			if r.overlaps(&n.Rules[j]) {
				return &NotificationError{"Filter", r.ID, "Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the prefixes are overlapping for the same event type."}
			}
		}
	}
	return nil
}

// check validates a rule by itself.
func (r *NotificationRule) check() *NotificationError {
	if r.ID == "" || len(r.ID) > maxNotificationID || !utf8.ValidString(r.ID) {
		return &NotificationError{"Id", r.ID, "The ID of a notification configuration has 1 to 255 characters"}
	}
	if len(r.Events) == 0 {
		return &NotificationError{"Event", "", "A notification configuration needs at least one event"}
	}
	if len(r.Events) > MaxRuleEvents {
		return &NotificationError{"Event", "", "A notification configuration has at most " + strconv.Itoa(MaxRuleEvents) + " events"}
	}
	for _, e := range r.Events {
		if eventsOf(e) == nil {
			return &NotificationError{"Event", e, "The event '" + e + "' is not supported for notifications"}
		}
	}
	seen := map[string]bool{}
	for _, f := range r.Filters {
		name := strings.ToLower(f.Name)
		switch {
		case name != "prefix" && name != "suffix":
			return &NotificationError{"FilterRule.Name", f.Name, "filter rule name must be either prefix or suffix"}
		case seen[name]:
			return &NotificationError{"FilterRule.Name", f.Name, "Cannot specify more than one " + name + " rule in a filter."}
		case len(f.Value) > maxFilter:
			return &NotificationError{"FilterRule.Value", f.Value, "Size of filter rule value cannot exceed 1024 bytes in UTF-8 representation"}
		}
		seen[name] = true
	}
	return nil
}

// checkDestination requires a configured destination. The error lists them, because ARNs cannot be guessed.
func (r *NotificationRule) checkDestination(all []Destination) *NotificationError {
	if d, ok := DestinationOf(r.ARN); ok && slices.Contains(all, d) {
		return nil
	}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.ARN()
	}
	exist := "no destinations are configured (buckets.destinations)"
	if len(names) > 0 {
		exist = "configured: " + strings.Join(names, ", ")
	}
	return &NotificationError{r.ARN, r.ARN, "Unable to validate the following destination configurations: unknown destination; " + exist}
}

// overlaps reports whether an object could have an event that matches both rules.
func (r *NotificationRule) overlaps(o *NotificationRule) bool {
	prefix, suffix := r.affixes()
	other, end := o.affixes()
	if !strings.HasPrefix(prefix, other) && !strings.HasPrefix(other, prefix) || !strings.HasSuffix(suffix, end) && !strings.HasSuffix(end, suffix) {
		return false
	}
	theirs := o.events()
	return slices.ContainsFunc(r.events(), func(e EventName) bool { return slices.Contains(theirs, e) })
}

func (n *Notifications) memory() (size int) {
	for i := range n.Rules {
		r := &n.Rules[i]
		size += objectMemory + len(r.ID) + len(r.ARN)
		for _, e := range r.Events {
			size += entryMemory + len(e)
		}
		for _, f := range r.Filters {
			size += entryMemory + len(f.Name) + len(f.Value)
		}
	}
	return size
}
