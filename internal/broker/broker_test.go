package broker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"holdfast/internal/broker"
	"holdfast/internal/outbox"
)

func sample() outbox.Event {
	return outbox.Event{
		Owner: "gms_1", Seq: 7, Topic: "wishlist.added.v1", Key: "wsh_1", Payload: json.RawMessage(`{"b":1,"a":[1.5,"ü"]}`),
		At: time.Date(2026, 11, 1, 12, 0, 0, 123456000, time.UTC), Name: "evt_1", Class: "audit",
		Headers: json.RawMessage(`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","No":"x"}`),
	}
}

func equals(t *testing.T, got *event.Event, want *broker.Event) {
	t.Helper()
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	extensions := map[string]string{}
	for name, value := range got.Extensions() {
		extensions[name], _ = value.(string)
	}
	if got.ID() != want.ID || got.Source() != want.Source || got.Type() != want.Type || got.Subject() != want.Subject || !got.Time().Equal(want.Time) ||
		got.SpecVersion() != "1.0" || got.DataContentType() != "application/json" || !maps.Equal(extensions, want.Extensions) {
		t.Errorf("got %v, want %+v", got, want)
	}
	var a, b bytes.Buffer
	if json.Compact(&a, got.Data()) != nil || json.Compact(&b, want.Data) != nil || a.String() != b.String() {
		t.Errorf("data: %s, want %s", got.Data(), want.Data)
	}
}

// TestCloudEvents exchanges events with the CloudEvents SDK in both directions, in JSON and in headers.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	e := sample()
	want := broker.ToMessage("/bff/consumer", &e).Event
	text, err := json.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	var parsed event.Event
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	equals(t, &parsed, &want)

	header := http.Header{}
	for name, value := range want.Headers() {
		header.Set(name, broker.Escape(value))
	}
	got, err := binding.ToEvent(t.Context(), cehttp.NewMessage(header, io.NopCloser(bytes.NewReader(want.Data))))
	if err != nil {
		t.Fatal(err)
	}
	equals(t, got, &want)

	back, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	var again broker.Event
	if err := json.Unmarshal(back, &again); err != nil {
		t.Fatal(err)
	}
	equals(t, &parsed, &again)
}

func TestNotEvents(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `[]`, `null`, `{"specversion":"0.3","id":"1","source":"/","type":"t"}`, `{"specversion":"1.0","id":"1","source":"/"}`,
		`{"specversion":"1.0","id":"","source":"/","type":"t"}`, `{"specversion":"1.0","id":{},"source":"/","type":"t"}`,
		`{"specversion":"1.0","id":"1","source":"/","type":"t","time":"now"}`, `{"specversion":"1.0","id":"1","source":"/","type":"t","Upper":"x"}`,
		`{"specversion":"1.0","id":"1","source":"/","type":"t","data_base64":"?"}`, `{"specversion":"1.0","id":"1","source":"/","type":"t","data":1,"data_base64":""}`,
		`{"specversion":"1.0","id":"1","source":"/","type":"t","datacontenttype":"text/plain","data":1}`,
	} {
		var e broker.Event
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	for name, headers := range map[string]map[string]string{
		"none": {}, "no version": {"ce-id": "1", "ce-source": "/", "ce-type": "t"}, "no id": {"ce-specversion": "1.0", "ce-source": "/", "ce-type": "t"},
	} {
		if _, err := broker.FromHeaders(headers, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func FuzzEvent(f *testing.F) {
	e := sample()
	m := broker.ToMessage("/", &e)
	text, _ := json.Marshal(&m.Event)
	f.Add(text)
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/","type":"t","n":1,"b":true,"datacontenttype":"text/plain","data":"x"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/","type":"t","datacontenttype":"a/b","data_base64":"AAH/"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/","type":"t","data_base64":"0000"}`)) // not JSON
	f.Fuzz(func(t *testing.T, text []byte) {
		var a, b broker.Event
		if json.Unmarshal(text, &a) != nil {
			return
		}
		once, err := json.Marshal(&a)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(once, &b); err != nil {
			t.Fatalf("%v: %s", err, once)
		}
		if twice, err := json.Marshal(&b); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%v: %s, then %s", err, once, twice)
		}
		for _, value := range a.Headers() {
			if got := broker.Unescape(broker.Escape(value)); got != value {
				t.Errorf("%q became %q", value, got)
			}
		}
	})
}

type refuser struct {
	broker.Broker
	results []error
}

func (r refuser) Ensure(context.Context, string, string) error { return nil }

func (r refuser) Publish(context.Context, string, []broker.Message) []error { return r.results }

// TestSink checks that a broker that stores nothing counts as unavailable, and that otherwise each message gets its
// own result.
func TestSink(t *testing.T) {
	t.Parallel()
	no, never := errors.New("no"), &broker.PermanentError{Err: errors.New("never")}
	for name, c := range map[string]struct {
		results []error
		refused int // -1 means unavailable
	}{
		"all": {[]error{nil, nil}, 0}, "none": {[]error{no, no}, -1}, "one": {[]error{no, nil}, 1}, "permanently": {[]error{never, broker.ErrPredecessor}, 2},
	} {
		sink := &broker.Sink{Broker: refuser{nil, c.results}, Topic: "t", Source: "/"}
		err := sink.Publish(t.Context(), []outbox.Event{sample(), sample()})
		refused, named := errors.AsType[*outbox.RefusedError](err)
		switch {
		case c.refused == 0 && err != nil, c.refused < 0 && (err == nil || named), c.refused > 0 && (!named || len(refused.Refusals) != c.refused):
			t.Errorf("%s: %v", name, err)
		case c.refused > 0 && refused.Refusals[0].Permanent != (name == "permanently"):
			t.Errorf("%s: %+v", name, refused.Refusals)
		}
	}
}
