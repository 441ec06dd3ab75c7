package buckets

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// Origin identifies the requester in events.
type Origin struct {
	Requester AccountID  // "" for anonymous clients and the server
	IP        netip.Addr // invalid if unknown
	Request   string     // request ID
}

type originKey struct{}

// originOf returns the origin that WithOrigin attached, or none for the server's own writes.
func originOf(ctx context.Context) (o Origin) {
	if origin, ok := ctx.Value(originKey{}).(func() Origin); ok {
		o = origin()
	}
	return o
}

// WithOrigin attaches the origin of writes. origin is only called if there are events.
func WithOrigin(ctx context.Context, origin func() Origin) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

// Notice lets a store append events in the transaction of a write. It is nil if there are no events.
type Notice struct {
	Origin
	Owner   AccountID // of the bucket
	Bucket  BucketRef
	Rules   *Notifications // which events to publish; shared, do not change
	Created EventName      // event for a write, e.g. EventPut
	Expired bool           // deleted by a lifecycle rule
}

// Event is a row in the outbox.
type Event struct {
	Destination string // name in [buckets.destinations]
	Stream      string // derived from the object name; events of a stream stay in order
	Key         string // BUCKET/OBJECT
	Payload     []byte // JSON of type notice; EventRecord makes the S3 record when it is sent
	At          Moment
}

// notice is an event's payload in the database.
type notice struct {
	Name      EventName `json:"event"`
	Rule      string    `json:"rule"` // rule ID
	Owner     AccountID `json:"owner"`
	Bucket    string    `json:"bucket"`
	Key       string    `json:"key"` // object name
	Size      *int64    `json:"size,omitempty"`
	ETag      string    `json:"etag,omitempty"`
	Version   VersionID `json:"version,omitempty"`
	Requester AccountID `json:"requester,omitempty"`
	IP        string    `json:"ip,omitempty"` // client address
	Request   string    `json:"request,omitempty"`
}

// concerns reports whether a rule's filter matches the name. It saves the transaction from work for other names.
func (n *Notice) concerns(name string) bool {
	for i := range n.Rules.Rules {
		prefix, suffix := n.Rules.Rules[i].affixes()
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// OfWritten returns a write's events, none for a nil Notice.
func (n *Notice) OfWritten(w Written, now Moment) []Event {
	if n == nil {
		return nil
	}
	return n.event(notice{Name: n.Created, Key: w.Object.Name, Size: &w.Object.Length, ETag: w.Object.EntityTag(), Version: w.Version}, now)
}

// OfDeleted returns the events for a delete without a version, which may have created a marker.
func (n *Notice) OfDeleted(name string, d Deleted, now Moment) []Event {
	switch {
	case n == nil:
		return nil
	case !d.Marker:
		return n.OfDeletedVersion(name, d.Version, now)
	case n.Expired:
		return n.event(notice{Name: EventExpiredMarker, Key: name, Version: d.Version}, now)
	}
	return n.event(notice{Name: EventMarker, Key: name, Version: d.Version}, now)
}

// OfDeletedVersion returns the events for a deleted version.
func (n *Notice) OfDeletedVersion(name string, id VersionID, now Moment) []Event {
	switch {
	case n == nil:
		return nil
	case n.Expired:
		return n.event(notice{Name: EventExpired, Key: name, Version: id}, now)
	}
	return n.event(notice{Name: EventDelete, Key: name, Version: id}, now)
}

// event completes e and returns the event, if a rule asks for it.
func (n *Notice) event(e notice, now Moment) []Event {
	for i := range n.Rules.Rules {
		r := &n.Rules.Rules[i]
		if !r.IsFor(e.Name, e.Key) {
			continue
		}
		to, ok := DestinationOf(r.ARN)
		if !ok {
			continue
		}
		e.Rule, e.Owner, e.Bucket, e.Requester, e.Request = r.ID, n.Owner, n.Bucket.Name, n.Requester, n.Request
		if n.IP.IsValid() {
			e.IP = n.IP.String()
		}
		text, err := json.Marshal(e)
		if err != nil { // impossible for these types
			continue
		}
		// An event has at most one destination, because rules do not overlap.
		return []Event{{Destination: to.Name, Stream: streamOf(string(n.Bucket.ID) + "/" + e.Key), Key: n.Bucket.Name + "/" + e.Key, Payload: text, At: now}}
	}
	return nil
}

// testEvents returns an s3:TestEvent for each destination, as S3 sends when notifications are set.
func testEvents(o Origin, b BucketRef, n Notifications, now Moment) (all []Event) {
	seen := map[string]bool{}
	for i := range n.Rules {
		to, _ := DestinationOf(n.Rules[i].ARN)
		if seen[to.Name] {
			continue
		}
		seen[to.Name] = true
		text, err := json.Marshal(notice{Name: eventTest, Bucket: b.Name, Request: o.Request})
		if err != nil {
			continue
		}
		all = append(all, Event{Destination: to.Name, Stream: streamOf(string(b.ID) + "\x00" + to.Name), Key: b.Name, Payload: text, At: now})
	}
	return all
}

// IsTestEvent reports whether an event key names a bucket without an object.
func IsTestEvent(key string) bool { return !strings.Contains(key, "/") }

// streamOf returns a UUID for a text. Events in a stream are delivered in order, others in parallel.
func streamOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	id := [16]byte(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // UUID version 8
	return formatUUID(id)
}

// EventRecord returns the name of an event and its S3 JSON. seq ascends per object.
func EventRecord(payload []byte, seq int64, at Moment) (name string, record json.RawMessage, err error) {
	var n notice
	if err := json.Unmarshal(payload, &n); err != nil {
		return "", nil, errcode.Wrap(errcode.Internal, "decode an event of a bucket", err)
	}
	when := at.Time().Format("2006-01-02T15:04:05.000Z")
	if n.Name == eventTest {
		record, err = json.Marshal(map[string]string{
			"Service": "Amazon S3", "Event": eventPrefix + string(n.Name), "Time": when, "Bucket": n.Bucket, "RequestId": n.Request, "HostId": "",
		})
		return eventPrefix + string(n.Name), record, err
	}
	object := map[string]any{"key": strings.ReplaceAll(url.QueryEscape(n.Key), "%2F", "/"), "sequencer": sequencer(seq)}
	if n.Size != nil {
		object["size"], object["eTag"] = *n.Size, n.ETag
	}
	if n.Version != "" {
		object["versionId"] = n.Version
	}
	record, err = json.Marshal(map[string]any{
		"eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "", "eventTime": when, "eventName": string(n.Name),
		"userIdentity":      map[string]string{"principalId": string(n.Requester)},
		"requestParameters": map[string]string{"sourceIPAddress": n.IP},
		"responseElements":  map[string]string{"x-amz-request-id": n.Request},
		"s3": map[string]any{
			"s3SchemaVersion": "1.0", "configurationId": n.Rule, "object": object,
			"bucket": map[string]any{"name": n.Bucket, "arn": "arn:aws:s3:::" + n.Bucket, "ownerIdentity": map[string]string{"principalId": string(n.Owner)}},
		},
	})
	return eventPrefix + string(n.Name), record, err
}

// sequencer formats seq so that it sorts numerically as text.
func sequencer(seq int64) string {
	text := strings.ToUpper(strconv.FormatInt(seq, 16))
	return strings.Repeat("0", 16-len(text)) + text
}

// noticed is the object that a write changes.
type noticed struct {
	owner  AccountID
	bucket BucketRef // the ID may be empty
	name   string
}

// notice returns the Notice for a write, or nil if no rule concerns the object. It may read the bucket.
func (s *Service) notice(ctx context.Context, of noticed) (*Notice, error) {
	n, err := s.notes.get(ctx, s, of.owner, of.bucket)
	if n == nil || err != nil || !n.concerns(of.name) {
		return nil, err
	}
	n.Origin = originOf(ctx)
	return n, nil
}

// withNotice runs a write with its Notice. The cached note may name a bucket that was deleted and created again; then
// it runs the write once more with the new bucket. Nothing was written before, because the bucket's ID did not match.
func withNotice[T any](ctx context.Context, s *Service, of noticed, write func(BucketRef, *Notice) (T, error)) (done T, err error) {
	for again := range 2 {
		n, err := s.notice(ctx, of)
		if err != nil {
			return done, err
		}
		ref := of.bucket
		if n != nil && ref.ID == "" {
			ref.ID = n.Bucket.ID
		}
		done, err = write(ref, n)
		if again > 0 || ref == of.bucket || !errors.Is(err, ErrNoBucket) {
			return done, err
		}
		s.notes.forget(of.owner, of.bucket.Name) // the name now belongs to another bucket
	}
	return done, nil
}

// Events reads and drops events that wait for destinations. Writes append them in their own transactions.
type Events interface {
	// Backlogs counts waiting events, in the order of destinations. Destinations without events are missing.
	Backlogs(ctx context.Context) ([]EventBacklog, error)

	// DropEvents deletes a destination's events from before a time, and at least excess events (0: none), oldest first. It
	// returns their number. Each batch is a transaction.
	DropEvents(ctx context.Context, destination string, before Moment, excess int64) (int64, error)

	// DropDeadEvents deletes events that the destination refused before a time and that nobody queued again.
	DropDeadEvents(ctx context.Context, before Moment) (int64, error)
}

// EventBacklog counts events that wait, or that were dropped.
type EventBacklog struct {
	Destination string
	Events      int64
	Oldest      Moment // 0 if none
}

// DropEvents also drops a destination's oldest events if it has more than limit.
func (s *Service) DropEvents(ctx context.Context, before Moment, limit int64) (dropped []EventBacklog, dead int64, err error) {
	all, err := s.store.Backlogs(ctx)
	for _, b := range all {
		excess := max(b.Events-limit, 0)
		if excess == 0 && b.Oldest >= before {
			continue
		}
		n, err := s.store.DropEvents(ctx, b.Destination, before, excess)
		if n > 0 {
			dropped = append(dropped, EventBacklog{b.Destination, n, b.Oldest})
		}
		if err != nil {
			return dropped, 0, err
		}
	}
	if err == nil {
		dead, err = s.store.DropDeadEvents(ctx, before)
	}
	return dropped, dead, err
}
