package s3api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	zombiezen "zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

func hooked(t *testing.T) *server {
	t.Helper()
	s := serve(t)
	s.options.Destinations = []buckets.Destination{{Name: "hook", Kind: "webhook"}, {Name: "mq", Kind: "nats"}}
	s.reopen()
	s.do("PUT", "/photos", "").want(200)
	return s
}

// events returns a destination's new records, without test events.
func (s *server) events(destination string) (all []record) {
	s.t.Helper()
	for _, text := range s.published(destination) {
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			s.t.Fatal(err)
		}
		if r.EventName != "" {
			all = append(all, r)
		}
	}
	return all
}

func (s *server) published(destination string) (all []json.RawMessage) {
	s.t.Helper()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	must(s.db.Read(s.t.Context(), "test", func(c *zombiezen.Conn) error {
		return sqlitedb.ForEach(c, `SELECT payload, seq, created_at FROM manta_bucket_event WHERE topic = ? ORDER BY position`, func(row *zombiezen.Stmt) error {
			_, text, err := buckets.EventRecord([]byte(row.ColumnText(0)), row.ColumnInt64(1), buckets.Moment(row.ColumnInt64(2)))
			all = append(all, text)
			return err
		}, destination)
	}))
	_, err := s.options.Backend.DropEvents(s.t.Context(), destination, buckets.At(time.Now().Add(time.Hour)), 0)
	must(err)
	return all
}

type record struct {
	EventVersion, EventSource, EventTime, EventName string
	UserIdentity                                    struct{ PrincipalID string }
	RequestParameters                               struct{ SourceIPAddress string }
	ResponseElements                                map[string]string
	S3                                              struct {
		ConfigurationID string
		Bucket          struct{ Name, ARN string }
		Object          struct {
			Key, ETag, VersionID, Sequencer string
			Size                            *int64
		}
	}
}

const configuration = `<NotificationConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s</NotificationConfiguration>`

func queue(id, arn, events, filter string) string {
	text := "<QueueConfiguration>"
	if id != "" {
		text += "<Id>" + id + "</Id>"
	}
	text += "<Queue>" + arn + "</Queue>"
	for e := range strings.FieldsSeq(events) {
		text += "<Event>" + e + "</Event>"
	}
	return text + filter + "</QueueConfiguration>"
}

const (
	hookARN = "arn:holdfast:webhook:::hook"
	everyEv = "s3:ObjectCreated:* s3:ObjectRemoved:* s3:LifecycleExpiration:*"
)

func affix(pairs ...string) string {
	text := "<Filter><S3Key>"
	for p := range slices.Chunk(pairs, 2) {
		text += "<FilterRule><Name>" + p[0] + "</Name><Value>" + p[1] + "</Value></FilterRule>"
	}
	return text + "</S3Key></Filter>"
}

func TestNotificationsOfSDK(t *testing.T) {
	t.Parallel()
	s := hooked(t)
	c, ctx, bucket := s.client(), t.Context(), aws.String("photos")
	want := &types.NotificationConfiguration{
		TopicConfigurations: []types.TopicConfiguration{{Id: aws.String("t"), TopicArn: aws.String("arn:holdfast:nats:::mq"), Events: []types.Event{"s3:ObjectRemoved:Delete"}}},
		QueueConfigurations: []types.QueueConfiguration{{
			Id: aws.String("q"), QueueArn: aws.String(hookARN), Events: []types.Event{"s3:ObjectCreated:*", "s3:ObjectRemoved:DeleteMarkerCreated"},
			Filter: &types.NotificationConfigurationFilter{Key: &types.S3KeyFilter{FilterRules: []types.FilterRule{{Name: "prefix", Value: aws.String("a/")}, {Name: "Suffix", Value: aws.String(".jpg")}}}},
		}},
		LambdaFunctionConfigurations: []types.LambdaFunctionConfiguration{{
			Id: aws.String("f"), LambdaFunctionArn: aws.String("arn:minio:sqs::hook:webhook"), Events: []types.Event{"s3:ObjectCreated:Copy"},
			Filter: &types.NotificationConfigurationFilter{Key: &types.S3KeyFilter{FilterRules: []types.FilterRule{{Name: "prefix", Value: aws.String("b/")}}}},
		}},
	}
	ok[*s3.PutBucketNotificationConfigurationOutput](t)(c.PutBucketNotificationConfiguration(ctx, &s3.PutBucketNotificationConfigurationInput{Bucket: bucket, NotificationConfiguration: want}))
	got := ok[*s3.GetBucketNotificationConfigurationOutput](t)(c.GetBucketNotificationConfiguration(ctx, &s3.GetBucketNotificationConfigurationInput{Bucket: bucket}))
	if a, b := fmt.Sprint(jsonOf(t, got.TopicConfigurations), jsonOf(t, got.QueueConfigurations), jsonOf(t, got.LambdaFunctionConfigurations)),
		fmt.Sprint(jsonOf(t, want.TopicConfigurations), jsonOf(t, want.QueueConfigurations), jsonOf(t, want.LambdaFunctionConfigurations)); a != b {
		t.Errorf("%s, want %s", a, b)
	}

	s.do("PUT", "/photos/a/red%20%C3%BC.jpg", hello).want(200)
	s.do("PUT", "/photos/a/x.png", hello).want(200)
	s.do("PUT", "/photos/b/copy.jpg", "", "x-amz-copy-source: /photos/a/x.png").want(200)
	s.do("DELETE", "/photos/a/x.png", "").want(204)
	s.do("DELETE", "/photos/a/none", "").want(204)
	events := s.events("hook")
	if len(events) != 2 || events[0].EventName != "ObjectCreated:Put" || events[1].EventName != "ObjectCreated:Copy" || events[1].S3.ConfigurationID != "f" {
		t.Fatalf("%+v", events)
	}
	e := events[0]
	if o := e.S3.Object; o.Key != "a/red+%C3%BC.jpg" || o.Size == nil || *o.Size != int64(len(hello)) || len(o.ETag) != 32 || len(o.Sequencer) != 16 || o.VersionID != "" {
		t.Errorf("%+v", o)
	}
	if e.EventVersion != "2.1" || e.EventSource != "aws:s3" || e.S3.Bucket.Name != "photos" || e.S3.Bucket.ARN != "arn:aws:s3:::photos" || e.RequestParameters.SourceIPAddress != "127.0.0.1" ||
		e.UserIdentity.PrincipalID == "" || e.ResponseElements["x-amz-request-id"] == "" {
		t.Errorf("%+v", e)
	}
	if _, err := time.Parse(time.RFC3339, e.EventTime); err != nil {
		t.Error(err)
	}
	if removed := s.events("mq"); len(removed) != 1 || removed[0].EventName != "ObjectRemoved:Delete" || removed[0].S3.Object.Key != "a/x.png" {
		t.Errorf("%+v", removed)
	}

	ok[*s3.PutBucketNotificationConfigurationOutput](t)(c.PutBucketNotificationConfiguration(ctx, &s3.PutBucketNotificationConfigurationInput{Bucket: bucket, NotificationConfiguration: &types.NotificationConfiguration{}}))
	s.do("PUT", "/photos/a/y.jpg", hello).want(200)
	if events := s.events("hook"); len(events) != 0 {
		t.Errorf("%+v", events)
	}
	s.do("GET", "/photos?notification", "").want(200).is(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<NotificationConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></NotificationConfiguration>`)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTestEvents checks that PUT sends each destination a test event, and a refused configuration sends none.
func TestTestEvents(t *testing.T) {
	t.Parallel()
	s := hooked(t)
	const mq = "arn:holdfast:nats:::mq"
	rules := queue("a", hookARN, "s3:ObjectCreated:*", affix("prefix", "a/")) + queue("b", hookARN, "s3:ObjectCreated:*", affix("prefix", "b/")) + queue("c", mq, "s3:ObjectRemoved:*", "")
	s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, rules+queue("c", mq, "s3:ObjectRemoved:*", ""))).want(400)
	want := func(destination string, n int) {
		t.Helper()
		all := s.published(destination)
		if len(all) != n {
			t.Fatalf("%s got %s", destination, all)
		}
		for _, text := range all {
			var got map[string]string
			if err := json.Unmarshal(text, &got); err != nil || got["Service"] != "Amazon S3" || got["Event"] != "s3:TestEvent" || got["Bucket"] != "photos" || got["RequestId"] == "" || len(got) != 6 {
				t.Errorf("%s, %v", text, err)
			}
			if at, err := time.Parse(time.RFC3339, got["Time"]); err != nil || time.Since(at).Abs() > time.Hour {
				t.Errorf("%s, %v", text, err)
			}
		}
	}
	want("hook", 0)
	for range 2 {
		s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, rules)).want(200)
	}
	want("hook", 2)
	want("mq", 2)
	s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, "")).want(200)
	want("hook", 0)
	for _, events := range []string{"s3:TestEvent", "s3:TestEvent:*"} {
		s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, queue("q", hookARN, events, ""))).want(400)
	}
}

func TestNotifiedWrites(t *testing.T) {
	t.Parallel()
	s := hooked(t)
	s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, queue("q", hookARN, everyEv, ""))).want(200)
	named := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, e := range s.events("hook") {
			got = append(got, e.EventName+" "+e.S3.Object.Key)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	s.do("PUT", "/photos/k", hello).want(200)
	named("PUT", "ObjectCreated:Put k")
	s.do("PUT", "/photos/k", hello, `If-Match: "00"`).want(412)
	named("PUT that fails")
	s.send(s.form(map[string]string{"key": "form"}, hello)).want(204)
	named("POST", "ObjectCreated:Post form")
	id := s.upload("/photos/up")
	parts := s.part("/photos/up", id, "1", hello)
	named("a part")
	for range 2 {
		s.complete("/photos/up", id, parts).want(200)
	}
	named("CompleteMultipartUpload", "ObjectCreated:CompleteMultipartUpload up")
	s.do("DELETE", "/photos/k", "").want(204)
	named("DELETE", "ObjectRemoved:Delete k")
	s.do("PUT", "/photos/a", hello).want(200)
	s.events("hook")
	s.do("POST", "/photos?delete", "<Delete><Object><Key>a</Key></Object><Object><Key>form</Key></Object><Object><Key>none</Key></Object></Delete>").want(200)
	named("DeleteObjects", "ObjectRemoved:Delete a", "ObjectRemoved:Delete form")
	s.do("PUT", "/photos?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>").want(200)
	version := s.do("PUT", "/photos/v", hello).want(200).header.Get("X-Amz-Version-Id")
	s.do("DELETE", "/photos/v", "").want(204)
	s.do("DELETE", "/photos/v?versionId="+version, "").want(204)
	named("versions", "ObjectCreated:Put v", "ObjectRemoved:DeleteMarkerCreated v", "ObjectRemoved:Delete v")
}

func TestRefusedNotifications(t *testing.T) {
	t.Parallel()
	s := hooked(t)
	valid := queue("q", hookARN, "s3:ObjectCreated:*", affix("prefix", "a/"))
	s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, valid)).want(200)
	before := s.do("GET", "/photos?notification", "").want(200).body
	for name, c := range map[string]struct{ body, code, message string }{
		"no destination":      {queue("q", "arn:aws:sqs:us-east-1:1:x", "s3:ObjectCreated:*", ""), "InvalidArgument", "configured: arn:holdfast:webhook:::hook, arn:holdfast:nats:::mq"},
		"a URL":               {queue("q", "http://127.0.0.1:1/", "s3:ObjectCreated:*", ""), "InvalidArgument", "unknown destination"},
		"another kind":        {queue("q", "arn:holdfast:nats:::hook", "s3:ObjectCreated:*", ""), "InvalidArgument", "unknown destination"},
		"an unknown event":    {queue("q", hookARN, "s3:ObjectRestore:Post", ""), "InvalidArgument", "s3:ObjectRestore:Post"},
		"events without s3:":  {queue("q", hookARN, "ObjectCreated:*", ""), "InvalidArgument", "not supported"},
		"all events":          {queue("q", hookARN, "s3:*", ""), "InvalidArgument", "not supported"},
		"half a wildcard":     {queue("q", hookARN, "s3:ObjectCreated*", ""), "InvalidArgument", "not supported"},
		"no event":            {queue("q", hookARN, "", ""), "InvalidArgument", "at least one event"},
		"a third filter":      {queue("q", hookARN, "s3:ObjectCreated:*", affix("tag", "x")), "InvalidArgument", "either prefix or suffix"},
		"two prefixes":        {queue("q", hookARN, "s3:ObjectCreated:*", affix("prefix", "x", "Prefix", "y")), "InvalidArgument", "more than one prefix"},
		"a long filter":       {queue("q", hookARN, "s3:ObjectCreated:*", affix("prefix", strings.Repeat("x", 1025))), "InvalidArgument", "1024"},
		"an ID twice":         {queue("q", hookARN, "s3:ObjectCreated:*", affix("prefix", "a")) + queue("q", hookARN, "s3:ObjectRemoved:*", ""), "InvalidArgument", "unique"},
		"a long ID":           {queue(strings.Repeat("i", 256), hookARN, "s3:ObjectCreated:*", ""), "InvalidArgument", "255"},
		"overlapping":         {valid + queue("r", "arn:holdfast:nats:::mq", "s3:ObjectCreated:Put", affix("prefix", "a/b")), "InvalidArgument", "ambiguously"},
		"overlapping without": {valid + queue("r", hookARN, "s3:ObjectCreated:Put", ""), "InvalidArgument", "ambiguously"},
		"EventBridge":         {"<EventBridgeConfiguration/>", "NotImplemented", "EventBridge"},
		"an element":          {"<Other/>", "MalformedXML", ""},
		"an element in it":    {strings.Replace(valid, "<Event>", "<Tag/><Event>", 1), "MalformedXML", ""},
		"another target":      {strings.Replace(valid, "<Queue>", "<Topic>x</Topic><Queue>", 1), "MalformedXML", ""},
		"another filter":      {strings.Replace(valid, "<S3Key>", "<S3Tag></S3Tag><S3Key>", 1), "MalformedXML", ""},
		"101 rules":           {strings.Repeat(valid, 101), "MalformedXML", ""},
	} {
		a := s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, c.body))
		if !strings.Contains(a.body, "<Code>"+c.code+"</Code>") || !strings.Contains(a.body, c.message) {
			t.Errorf("%s: %d, %s", name, a.status, a.body)
		}
	}
	s.do("GET", "/photos?notification", "").want(200).is(before)
	for name, body := range map[string]string{
		"suffixes":        valid + queue("r", hookARN, "s3:ObjectCreated:*", affix("prefix", "b/", "suffix", ".jpg")),
		"events":          valid + queue("r", hookARN, "s3:ObjectRemoved:*", ""),
		"the same prefix": queue("q", hookARN, "s3:ObjectCreated:*", affix("prefix", "a", "suffix", ".jpg")) + queue("r", hookARN, "s3:ObjectCreated:*", affix("prefix", "a", "suffix", ".png")),
		"an empty filter": queue("q", hookARN, "s3:ObjectCreated:*", "<Filter></Filter>"),
		"no ID":           queue("", hookARN, "s3:ObjectCreated:*", ""),
	} {
		if a := s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, body)); a.status != 200 {
			t.Errorf("%s: %d, %s", name, a.status, a.body)
		}
	}
	s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, valid)).want(200)
	s.do("GET", "/photos?notification", "").want(200).is(before)
	s.as(s.other, "GET", "/photos?notification", "").want(404)
}
