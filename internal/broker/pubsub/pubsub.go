// Package pubsub is the Google Pub/Sub driver.
//
// Topics and subscriptions use message ordering. Event attributes are message attributes, following the CloudEvents
// Pub/Sub binding.
package pubsub

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/internal/broker"
	"holdfast/internal/errcode"
)

type Options struct {
	Project  string
	Emulator string // host:port, used in plain text and without credentials; "" means Google Cloud
}

// Broker implements broker.Broker.
type Broker struct {
	project string
	client  *pubsub.Client

	mu         sync.Mutex
	publishers map[string]*pubsub.Publisher
}

// Open returns a broker that connects on first use, on Google Cloud with the application default credentials.
func Open(ctx context.Context, o Options) (*Broker, error) {
	var opts []option.ClientOption
	if o.Emulator != "" {
		opts = []option.ClientOption{
			option.WithEndpoint(o.Emulator), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
			option.WithGRPCDialOption(grpc.WithNoProxy()),
		}
	}
	client, err := pubsub.NewClient(ctx, o.Project, opts...)
	if err != nil {
		return nil, &errcode.Error{Code: errcode.Unavailable, Message: "no client of Pub/Sub", Cause: err, Fix: errcode.CloudFix(codes.Unauthenticated.String())}
	}
	return &Broker{project: o.Project, client: client, publishers: map[string]*pubsub.Publisher{}}, nil
}

const (
	ackDeadline  = 10 * time.Second
	retention    = 7 * 24 * time.Hour
	maxExtension = 10 * time.Minute

	// shutdownTimeout limits the wait for messages in progress. Unprocessed messages are returned for other consumers.
	shutdownTimeout = 10 * time.Second
)

// Ensure ignores missing rights: an administrator may have created topic and subscription.
func (b *Broker) Ensure(ctx context.Context, topic, subscription string) error {
	name := "projects/" + b.project + "/topics/" + topic
	_, err := b.client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: name})
	if err := created(err); err != nil || subscription == "" {
		return err
	}
	_, err = b.client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: "projects/" + b.project + "/subscriptions/" + subscription, Topic: name, EnableMessageOrdering: true,
		AckDeadlineSeconds: int32(ackDeadline / time.Second), MessageRetentionDuration: durationpb.New(retention),
		RetryPolicy:      &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(100 * time.Millisecond), MaximumBackoff: durationpb.New(time.Minute)},
		ExpirationPolicy: &pubsubpb.ExpirationPolicy{}, // never
	})
	return created(err)
}

// Exists returns true if the account may not check.
func (b *Broker) Exists(ctx context.Context, topic, subscription string) (bool, error) {
	_, err := b.client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: "projects/" + b.project + "/topics/" + topic})
	if err == nil && subscription != "" {
		_, err = b.client.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{
			Subscription: "projects/" + b.project + "/subscriptions/" + subscription,
		})
	}
	switch status.Code(err) {
	case codes.OK, codes.PermissionDenied:
		return true, nil
	case codes.NotFound:
		return false, nil
	case codes.DeadlineExceeded:
		return false, context.DeadlineExceeded
	}
	return false, &errcode.Error{
		Code: errcode.Unavailable, Message: "Pub/Sub is unavailable", Cause: errors.New(status.Convert(err).Message()), Fix: errcode.CloudFix(status.Code(err).String()),
	}
}

// created ignores that something exists already or that the account may not create it.
func created(err error) error {
	switch status.Code(err) {
	case codes.AlreadyExists, codes.PermissionDenied:
		return nil
	}
	return classify(err)
}

// classify gives an error of publishing or pulling its code. A *broker.PermanentError repeats however often the message is
// sent; broker.ErrPredecessor means that an earlier message of the same key must be sent first.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(pubsub.ErrPublishingPaused)) {
		return broker.ErrPredecessor
	}
	switch status.Code(err) {
	case codes.NotFound:
		return errcode.Wrap(errcode.NotFound, "the topic or subscription does not exist", err)
	case codes.InvalidArgument:
		return &broker.PermanentError{Err: errcode.Wrap(errcode.Invalid, "Pub/Sub rejects the message", err)}
	}
	if errors.Is(err, pubsub.ErrOversizedMessage) {
		return &broker.PermanentError{Err: errcode.Wrap(errcode.TooLarge, "the message is too large", err)}
	}
	return &errcode.Error{Code: errcode.Unavailable, Message: "Pub/Sub is unavailable", Cause: err, Fix: cmp.Or(errcode.CloudFix(status.Code(err).String()), errcode.NetworkFix(err))}
}

// publisher returns a topic's publisher, which batches messages.
func (b *Broker) publisher(topic string) *pubsub.Publisher {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.publishers[topic]
	if p == nil {
		p = b.client.Publisher(topic)
		p.EnableMessageOrdering = true
		p.PublishSettings.DelayThreshold = 2 * time.Millisecond // Publish already gets a whole batch
		b.publishers[topic] = p
	}
	return p
}

// publishTimeout is shorter than the client's, which would retry for a minute.
const publishTimeout = 10 * time.Second

func (b *Broker) Publish(ctx context.Context, topic string, messages []broker.Message) []error {
	p := b.publisher(topic)
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	pending := make([]*pubsub.PublishResult, len(messages))
	for i, m := range messages {
		pending[i] = p.Publish(ctx, &pubsub.Message{Data: m.Data, Attributes: m.Headers(), OrderingKey: m.Key})
	}
	results := make([]error, len(messages))
	for i, r := range pending {
		if _, err := r.Get(ctx); err != nil {
			results[i] = classify(err)
		}
	}
	// A key is paused after an error; the caller republishes its messages.
	for i, err := range results {
		if err != nil && messages[i].Key != "" {
			p.ResumePublish(messages[i].Key)
		}
	}
	return results
}

const maxOutstanding = 64

func (b *Broker) Subscribe(ctx context.Context, _, subscription string, handle func(context.Context, *broker.Delivery)) error {
	s := b.client.Subscriber(subscription)
	s.ReceiveSettings.MaxOutstandingMessages = maxOutstanding
	s.ReceiveSettings.MaxExtension = maxExtension
	s.ReceiveSettings.MaxDurationPerAckExtension = ackDeadline
	s.ReceiveSettings.ShutdownOptions = &pubsub.ShutdownOptions{Behavior: pubsub.ShutdownBehaviorNackImmediately, Timeout: shutdownTimeout}
	err := s.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		e, err := broker.FromHeaders(m.Attributes, m.Data)
		if err != nil {
			e = broker.Foreign("pubsub:"+subscription, m.ID, m.PublishTime, m.Data)
		}
		handle(ctx, &broker.Delivery{
			Message: broker.Message{Key: m.OrderingKey, Event: e}, Ack: m.Ack, Nack: m.Nack, Extend: func() {},
		})
	})
	if ctx.Err() == nil {
		return classify(err)
	}
	return nil
}

func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.publishers {
		p.Stop()
	}
	return b.client.Close()
}
