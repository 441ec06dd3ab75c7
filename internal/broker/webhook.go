package broker

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/conf/settings"
	"holdfast/internal/errcode"
	"holdfast/internal/outbox"
)

// Webhook is a sink that POSTs each event in a separate request, signed as in Standard Webhooks
// (https://www.standardwebhooks.com). A 2xx status means that the event is stored. Separate requests keep the
// message's ID and body the same in all attempts, also after a restart: a batch would change with the events that
// wait.
type Webhook struct {
	URL     string   // may contain credentials
	Secrets []string // sign requests, the current one first; as settings.WebhookKey accepts them; none: unsigned
	Source  string   // CloudEvents source
	Clock   clock.Clock
	Client  *http.Client // nil means a client that does not follow redirects

	// Wait limits each attempt; 0: webhookWait.
	Wait time.Duration

	// Encode returns an event's body and content type; nil means a CloudEvents event with the member timestamp, so that it
	// contains all members that Standard Webhooks recommends: type, timestamp and data.
	Encode func(e *outbox.Event) (body []byte, contentType string, err error)
}

const (
	eventType = "application/cloudevents+json; charset=utf-8"

	// webhookWait is in the range that Standard Webhooks recommends, 15 to 30 seconds.
	webhookWait = 15 * time.Second

	// webhookRequests limits concurrent requests to a webhook. Events with the same key follow each other.
	webhookRequests = 16
)

// Standard Webhooks headers.
const (
	webhookID        = "webhook-id"
	webhookTimestamp = "webhook-timestamp"
	webhookSignature = "webhook-signature"
)

var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Publish sends events with different keys concurrently. After a refusal, the later events with the same key wait. A
// webhook that accepts nothing counts as unavailable.
func (w *Webhook) Publish(ctx context.Context, events []outbox.Event) error {
	type stream struct{ owner, name string }
	streams := map[stream][]int{}
	for i := range events {
		s := stream{events[i].Owner, events[i].Stream}
		streams[s] = append(streams[s], i)
	}
	results := Failed(len(events), ErrPredecessor)
	var all sync.WaitGroup
	slots := make(chan struct{}, webhookRequests)
	for _, indexes := range streams {
		slots <- struct{}{}
		all.Go(func() {
			w.sendInOrder(ctx, events, indexes, results)
			<-slots
		})
	}
	all.Wait()
	return refusals(results)
}

// sendInOrder sends the events at these indexes until one is refused, and stores their results.
func (w *Webhook) sendInOrder(ctx context.Context, events []outbox.Event, indexes []int, results []error) {
	for _, i := range indexes {
		if results[i] = w.send(ctx, &events[i]); results[i] != nil {
			return
		}
	}
}

// send makes an attempt.
func (w *Webhook) send(ctx context.Context, e *outbox.Event) error {
	encode := w.Encode
	if encode == nil {
		encode = w.event
	}
	body, contentType, err := encode(e)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	wait := w.Wait
	if wait == 0 {
		wait = webhookWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return errcode.Wrap(errcode.Invalid, "the URL of the webhook is not valid", err)
	}
	r.Header.Set("Content-Type", contentType)
	id, at := w.messageID(e), strconv.FormatInt(w.Clock().Unix(), 10)
	r.Header.Set(webhookID, id)
	r.Header.Set(webhookTimestamp, at)
	var signatures []string
	for _, secret := range w.Secrets {
		key, err := settings.WebhookKey(secret)
		if err != nil {
			return errcode.Wrap(errcode.Invalid, "the secret of the webhook is not valid", err)
		}
		signatures = append(signatures, signature(key, id, at, body))
	}
	if len(signatures) > 0 {
		r.Header.Set(webhookSignature, strings.Join(signatures, " "))
	}
	client := w.Client
	if client == nil {
		client = noRedirects
	}
	resp, err := client.Do(r)
	if err != nil {
		return errcode.Unreachable("the webhook does not answer", err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // lets the connection be reused
	if resp.StatusCode/100 != 2 {
		return &errcode.Error{Code: errcode.Unavailable, Message: "the webhook answered with status " + strconv.Itoa(resp.StatusCode), Fix: errcode.StatusFix(resp.StatusCode)}
	}
	return nil
}

// messageID returns the event's ID, or its hash unless the event is named and the ID is free of dots: the signed text
// separates its parts by dots.
func (w *Webhook) messageID(e *outbox.Event) string {
	m := ToMessage(w.Source, e)
	if e.Name != "" && !strings.Contains(m.ID, ".") {
		return m.ID
	}
	sum := sha256.Sum256([]byte(w.Source + " " + m.ID + " " + e.At.UTC().Format(time.RFC3339Nano)))
	return "msg_" + hex.EncodeToString(sum[:16])
}

func (w *Webhook) event(e *outbox.Event) (body []byte, contentType string, err error) {
	m := ToMessage(w.Source, e)
	m.Extensions["timestamp"] = m.Time.UTC().Format(time.RFC3339Nano)
	body, err = json.Marshal(&m.Event)
	return body, eventType, err
}

// signature returns a symmetric signature for webhook-signature.
func signature(key []byte, id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
