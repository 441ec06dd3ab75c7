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

// Origin is the client of a request, as events name it.
type Origin struct {
	Requester AccountID // "": anonymous, or the server itself
	IP        netip.Addr
	Request   string // ID of the request
}

type originKey struct{}

// originOf returns the client of a request; the zero Origin if there is none.
func originOf(ctx context.Context) (o Origin) {
	if origin, ok := ctx.Value(originKey{}).(func() Origin); ok {
		o = origin()
	}
	return o
}

// WithOrigin returns a context for the writes of a request. origin is called if there are events.
func WithOrigin(ctx context.Context, origin func() Origin) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

// Notice has what a store needs to append the events of a write in its transaction. A nil Notice has no events.
type Notice struct {
	Origin
	Owner   AccountID
	Bucket  BucketRef
	Rules   *Notifications
	Created EventName // of a new object
	Expired bool      // a lifecycle rule deletes
}

// Event is an event of an object that is to be published.
type Event struct {
	Destination string // its name in the configuration
	Stream      string // UUID of the object's name, whose events are in order
	Key         string // bucket and name
	Payload     []byte // as EventRecord reads it
	At          Moment
}

// notice is the payload of an Event.
type notice struct {
	Name      EventName `json:"event"`
	Rule      string    `json:"rule"`
	Owner     AccountID `json:"owner"`
	Bucket    string    `json:"bucket"`
	Key       string    `json:"key"`
	Size      *int64    `json:"size,omitempty"`
	ETag      string    `json:"etag,omitempty"`
	Version   VersionID `json:"version,omitempty"`
	Requester AccountID `json:"requester,omitempty"`
	IP        string    `json:"ip,omitempty"`
	Request   string    `json:"request,omitempty"`
}

// concerns reports whether there may be events of an object.
func (n *Notice) concerns(name string) bool {
	for i := range n.Rules.Rules {
		prefix, suffix := n.Rules.Rules[i].affixes()
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// OfWritten returns the events of an object that was written.
func (n *Notice) OfWritten(w Written, now Moment) []Event {
	if n == nil {
		return nil
	}
	return n.event(notice{Name: n.Created, Key: w.Object.Name, Size: &w.Object.Length, ETag: w.Object.EntityTag(), Version: w.Version}, now)
}

// OfDeleted returns the events of an object that was deleted, perhaps by a delete marker.
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

// OfDeletedVersion returns the events of a version, or a delete marker, that was deleted.
func (n *Notice) OfDeletedVersion(name string, id VersionID, now Moment) []Event {
	switch {
	case n == nil:
		return nil
	case n.Expired:
		return n.event(notice{Name: EventExpired, Key: name, Version: id}, now)
	}
	return n.event(notice{Name: EventDelete, Key: name, Version: id}, now)
}

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
		if err != nil { // no value of these types has one
			continue
		}
		// Rules do not overlap, so an event has one destination.
		return []Event{{Destination: to.Name, Stream: streamOf(string(n.Bucket.ID) + "/" + e.Key), Key: n.Bucket.Name + "/" + e.Key, Payload: text, At: now}}
	}
	return nil
}

// testEvents returns an event for each destination of notifications.
func testEvents(o Origin, b BucketRef, n Notifications, now Moment) (all []Event) {
	seen := map[string]bool{}
	for i := range n.Rules {
		to, _ := DestinationOf(n.Rules[i].ARN)
		if seen[to.Name] {
			continue
		}
		seen[to.Name] = true
		text, err := json.Marshal(notice{Name: eventTest, Bucket: b.Name, Request: o.Request})
		if err != nil { // no value of these types has one
			continue
		}
		all = append(all, Event{Destination: to.Name, Stream: streamOf(string(b.ID) + "\x00" + to.Name), Key: b.Name, Payload: text, At: now})
	}
	return all
}

// IsTestEvent reports whether an event tests a destination. The key of others has a bucket and an object.
func IsTestEvent(key string) bool { return !strings.Contains(key, "/") }

// streamOf returns a UUID of a text.
func streamOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	id := [16]byte(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8
	return formatUUID(id)
}

// EventRecord returns the name of an event, and its record in the JSON of S3. seq is ascending among the events of an object. A test
// event has another form, and no list of records around it.
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

// sequencer returns a number as text of a constant length, so that texts are ordered as numbers are.
func sequencer(seq int64) string {
	text := strings.ToUpper(strconv.FormatInt(seq, 16))
	return strings.Repeat("0", 16-len(text)) + text
}

// noticed is an object that is written.
type noticed struct {
	owner  AccountID
	bucket BucketRef
	name   string
}

// notice returns what the store needs for the events of an object; nil if there are none.
func (s *Service) notice(ctx context.Context, of noticed) (*Notice, error) {
	n, err := s.notes.get(ctx, s, of.owner, of.bucket)
	if n == nil || err != nil || !n.concerns(of.name) {
		return nil, err
	}
	n.Origin = originOf(ctx)
	return n, nil
}

// withNotice calls a write, with the notice of an object. The write may name its bucket without the ID: then the notice has it.
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
		s.notes.forget(of.owner, of.bucket.Name) // the name has another bucket since
	}
	return done, nil
}

// Events stores events until they are published.
type Events interface {
	// Backlogs returns the destinations that have events, by name.
	Backlogs(ctx context.Context) ([]EventBacklog, error)

	// DropEvents deletes the events of a destination that are older than a time, and at least so many of the oldest. It
	// returns their number.
	DropEvents(ctx context.Context, destination string, before Moment, excess int64) (int64, error)

	// DropDeadEvents deletes the events that were set aside before a time, and returns their number.
	DropDeadEvents(ctx context.Context, before Moment) (int64, error)
}

// EventBacklog counts the events that a destination has not received.
type EventBacklog struct {
	Destination string
	Events      int64
	Oldest      Moment
}

// DropEvents drops the events that a destination has not accepted: those that are older than a time, and the oldest of more than most. It
// returns what was dropped, by destination, and how many events were dropped that had been set aside.
func (s *Service) DropEvents(ctx context.Context, before Moment, most int64) (dropped []EventBacklog, dead int64, err error) {
	all, err := s.store.Backlogs(ctx)
	for _, b := range all {
		excess := max(b.Events-most, 0)
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
