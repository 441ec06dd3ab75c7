// Package nats is the NATS JetStream driver.
//
// A topic is a subject with its own stream, unless a stream with the subject already exists.
package nats

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"holdfast/internal/broker"
	"holdfast/internal/errcode"
)

// Options configure Open. Only URL is required.
type Options struct {
	URL         string // nats://user:password@host:port or tls://…, more hosts separated by commas
	Credentials string // file with a JWT and a key; may be ""
	Once        bool   // fail if no server is reachable
	Replicas    int    // for streams created by Ensure; 0 means 1
}

// Broker implements broker.Broker with JetStream.
type Broker struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	replicas int
}

// Open succeeds even if no server is reachable, and connects later.
func Open(o Options) (*Broker, error) {
	opts := []nats.Option{
		nats.Name("holdfast"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.RetryOnFailedConnect(!o.Once),
		nats.Timeout(5 * time.Second), nats.ReconnectBufSize(-1), // fail instead of buffering; the caller retries
	}
	if o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(o.Credentials))
	}
	conn, err := nats.Connect(o.URL, opts...)
	if err != nil && o.Once {
		return nil, unavailable(err)
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.Invalid, "no client of NATS", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, errcode.Wrap(errcode.Internal, "no client of JetStream", err)
	}
	return &Broker{conn: conn, js: js, replicas: max(o.Replicas, 1)}, nil
}

const (
	retention      = 7 * 24 * time.Hour // of messages in streams that Ensure creates
	window         = 10 * time.Minute   // for duplicates with the same ID
	timeout        = 5 * time.Second    // of a request to the server
	maxOutstanding = 64                 // messages of a subscription that are handled at once
)

// streamName replaces dots and wildcards, which stream names do not allow.
func streamName(topic string) string {
	return strings.NewReplacer(".", "_", "*", "_", ">", "_", " ", "_").Replace(topic)
}

// stream returns the name of the stream with a topic, or NotFound.
func (b *Broker) stream(ctx context.Context, topic string) (string, error) {
	name, err := b.js.StreamNameBySubject(ctx, topic)
	return name, classify(err)
}

func (b *Broker) Ensure(ctx context.Context, topic, subscription string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stream, err := b.stream(ctx, topic)
	if errcode.Is(err, errcode.NotFound) {
		stream = streamName(topic)
		_, err = b.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: stream, Subjects: []string{topic}, MaxAge: retention, Duplicates: window, Storage: jetstream.FileStorage, Replicas: b.replicas,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			stream, err = b.stream(ctx, topic)
		}
		err = classify(err)
	}
	if err != nil || subscription == "" {
		return err
	}
	_, err = b.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: subscription, FilterSubject: topic, AckPolicy: jetstream.AckExplicitPolicy, AckWait: broker.AckWait,
		DeliverPolicy: jetstream.DeliverNewPolicy, MaxAckPending: maxOutstanding,
	})
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return nil
	}
	return classify(err)
}

// Exists reports whether a topic, and a subscription unless "", exists, without creating it.
func (b *Broker) Exists(ctx context.Context, topic, subscription string) (bool, error) {
	stream, err := b.stream(ctx, topic)
	if err == nil && subscription != "" {
		_, err = b.js.Consumer(ctx, stream, subscription)
		err = classify(err)
	}
	if errcode.Is(err, errcode.NotFound) {
		return false, b.jetStream(ctx)
	}
	return err == nil, err
}

// jetStream returns an error if the server has no JetStream.
func (b *Broker) jetStream(ctx context.Context) error {
	if _, err := b.js.AccountInfo(ctx); err != nil {
		return unavailable(err)
	}
	return nil
}

// unavailable gives the advice for an operator.
func unavailable(err error) error {
	fix := errcode.NetworkFix(err)
	_, isAPI := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		fix = "NATS refuses the credentials: correct user and password in the URL, or the file of credentials"
	case errors.Is(err, nats.ErrPermissionViolation):
		fix = "the user of NATS has not the rights: allow it to publish to the topic and to $JS.API.>"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		fix = "JetStream is not enabled: start nats-server with -js, or enable it for the account"
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		fix = "only one side uses TLS: write tls:// or nats:// in the URL as the server does"
	case errors.Is(err, nats.ErrNoServers):
		fix = "nothing answers as NATS at the address: start the server there, or correct host and port"
	case errors.Is(err, nats.ErrNoResponders):
		fix = "JetStream does not answer: start nats-server with -js, or wait for its leader"
	case isAPI && fix == "":
		fix = "NATS refuses it: look at its limits for streams and storage (nats account info), and at its log"
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrReconnectBufExceeded):
		fix = "there is no connection to NATS: start the server, or correct the URL"
	}
	return &errcode.Error{Code: errcode.Unavailable, Message: "NATS is unavailable", Cause: err, Fix: fix}
}

// classify gives an error of publishing or pulling its code. A *broker.PermanentError repeats however often the message is
// sent; all other errors may end.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrNoStreamResponse),
		errors.Is(err, nats.ErrNoResponders):
		return errcode.Wrap(errcode.NotFound, "the topic or subscription does not exist", err)
	case errors.Is(err, nats.ErrMaxPayload):
		return &broker.PermanentError{Err: errcode.Wrap(errcode.TooLarge, "the message is too large", err)}
	case errors.Is(err, nats.ErrBadSubject):
		return &broker.PermanentError{Err: errcode.Wrap(errcode.Invalid, "NATS rejects the message", err)}
	}
	return unavailable(err)
}

// keysAtOnce is how many keys' messages are published at the same time.
const keysAtOnce = 64

// Publish publishes a key's messages one at a time, because JetStream could store the second message without the
// first.
func (b *Broker) Publish(ctx context.Context, topic string, messages []broker.Message) []error {
	results := make([]error, len(messages))
	keys := map[string][]int{}
	var order []string
	for i, m := range messages {
		if keys[m.Key] == nil {
			order = append(order, m.Key)
		}
		keys[m.Key] = append(keys[m.Key], i)
	}
	slots := make(chan struct{}, keysAtOnce)
	var publishing sync.WaitGroup
	for _, key := range order {
		slots <- struct{}{}
		publishing.Go(func() {
			defer func() { <-slots }()
			for _, i := range keys[key] {
				if err := b.publish(ctx, topic, messages[i]); err != nil {
					results[i] = err
					if key == "" {
						continue
					}
					for _, later := range keys[key] {
						if later > i {
							results[later] = broker.ErrPredecessor
						}
					}
					return
				}
			}
		})
	}
	publishing.Wait()
	return results
}

func (b *Broker) publish(ctx context.Context, topic string, m broker.Message) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	header := nats.Header{}
	for name, value := range m.Headers() {
		header.Set(name, broker.Escape(value))
	}
	_, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: topic, Header: header, Data: m.Data},
		jetstream.WithMsgID(m.Source+" "+m.ID), jetstream.WithRetryAttempts(0))
	return classify(err)
}

// Subscribe processes one message at a time.
func (b *Broker) Subscribe(ctx context.Context, topic, subscription string, handle func(context.Context, *broker.Delivery)) error {
	stream, err := b.stream(ctx, topic)
	if err != nil {
		return err
	}
	consumer, err := b.js.Consumer(ctx, stream, subscription)
	if err != nil {
		return classify(err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(maxOutstanding), jetstream.PullHeartbeat(timeout), jetstream.PullExpiry(3*timeout))
	if err != nil {
		return classify(err)
	}
	defer messages.Stop()
	stop := context.AfterFunc(ctx, messages.Drain)
	defer stop()
	for {
		m, err := messages.Next()
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case ctx.Err() != nil: // prefetched: return it, so that other consumers need not wait for AckWait
			_ = m.NakWithDelay(nackPause) // delayed, because the server may still have our pull request and would redeliver to us
			continue
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue
		case err != nil:
			return classify(err)
		}
		handle(ctx, delivery(m, subscription))
	}
}

// delivery converts a message; one that is no event becomes broker.Foreign.
func delivery(m jetstream.Msg, subscription string) *broker.Delivery {
	headers := map[string]string{}
	for name := range m.Headers() {
		headers[name] = broker.Unescape(m.Headers().Get(name))
	}
	e, err := broker.FromHeaders(headers, m.Data())
	if err != nil {
		var id string
		var at time.Time
		if meta, err := m.Metadata(); err == nil {
			id, at = meta.Stream+"/"+strconv.FormatUint(meta.Sequence.Stream, 10), meta.Timestamp
		}
		e = broker.Foreign("nats:"+subscription, id, at, m.Data())
	}
	// A lost acknowledgement causes redelivery.
	return &broker.Delivery{
		Message: broker.Message{Key: e.Extensions[broker.PartitionKey], Event: e},
		Ack:     func() { _ = m.Ack() },
		Nack:    func() { _ = m.NakWithDelay(nackPause) },
		Extend:  func() { _ = m.InProgress() },
	}
}

// nackPause keeps the server from redelivering a failed message in a tight loop.
const nackPause = 100 * time.Millisecond

func (b *Broker) Close() error {
	b.conn.Close()
	return nil
}
