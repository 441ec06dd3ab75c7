package broker

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/ident"
	"holdfast/internal/outbox"
)

// Webhook is a sink that POSTs CloudEvents batches in JSON, signed as in Standard Webhooks. A 2xx status means that
// all events are stored.
type Webhook struct {
	URL    string // may contain credentials
	Secret string // signs requests; "": unsigned
	Source string // CloudEvents source
	Clock  clock.Clock
	Client *http.Client // nil means a client that does not follow redirects

	// Encode returns a request's body and content type; nil means a CloudEvents batch.
	Encode func(events []outbox.Event) (body []byte, contentType string, err error)
}

const batchType = "application/cloudevents-batch+json; charset=utf-8"

// Standard Webhooks headers.
const (
	webhookID        = "webhook-id"
	webhookTimestamp = "webhook-timestamp"
	webhookSignature = "webhook-signature"
)

var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Publish sends a batch as one request. After any status but 2xx, the relay tries it again.
func (w *Webhook) Publish(ctx context.Context, events []outbox.Event) error {
	encode := w.Encode
	if encode == nil {
		encode = w.batch
	}
	body, contentType, err := encode(events)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode events", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return errcode.Wrap(errcode.Invalid, "the URL of the webhook is not valid", err)
	}
	r.Header.Set("Content-Type", contentType)
	id, at := "msg_"+ident.New(), strconv.FormatInt(w.Clock().Unix(), 10)
	r.Header.Set(webhookID, id)
	r.Header.Set(webhookTimestamp, at)
	if w.Secret != "" {
		r.Header.Set(webhookSignature, Signature(w.Secret, id, at, body))
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

func (w *Webhook) batch(events []outbox.Event) (body []byte, contentType string, err error) {
	all := make([]*Event, len(events))
	for i := range events {
		m := ToMessage(w.Source, &events[i])
		all[i] = &m.Event
	}
	body, err = json.Marshal(all)
	return body, batchType, err
}

// Signature returns the value of webhook-signature (Standard Webhooks, symmetric signatures).
func Signature(secret, id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// signatureLife limits replays.
const signatureLife = 5 * time.Minute

// Verify reports whether a request was signed with the secret less than five minutes ago.
func Verify(secret string, h http.Header, body []byte, now time.Time) bool {
	seconds, err := strconv.ParseInt(h.Get(webhookTimestamp), 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > signatureLife {
		return false
	}
	return hmac.Equal([]byte(h.Get(webhookSignature)), []byte(Signature(secret, h.Get(webhookID), h.Get(webhookTimestamp), body)))
}
