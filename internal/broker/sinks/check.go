package sinks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast/internal/broker"
	"holdfast/internal/broker/nats"
	"holdfast/internal/broker/pubsub"
	"holdfast/internal/errcode"
)

const checkTime = 5 * time.Second

// Check connects to a configured webhook or broker without changing anything. result contains no secrets.
func Check(ctx context.Context, setting string) (result string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	u, err := url.Parse(setting)
	if err != nil {
		return "", errcode.New(errcode.Invalid, "the URL is not valid")
	}
	where := u.Scheme + "://" + u.Host + u.Path
	if u.Scheme == "http" || u.Scheme == "https" {
		return checkWebhook(ctx, setting, where)
	}
	b, names, err := open(ctx, u, true)
	if err != nil {
		return "", fmt.Errorf("%s: %s", where, errcode.NetworkReason(err))
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	topic, subscription := names[0], ""
	if len(names) > 1 {
		subscription = names[1]
	}
	found, err := b.(prober).Exists(ctx, topic, subscription)
	if err != nil {
		return "", fmt.Errorf("%s: %s", where, errcode.NetworkReason(err))
	}
	if !found {
		return where + ": the server will create it", nil
	}
	return where, nil
}

// prober is a broker that can look for topics without creating them.
type prober interface {
	Exists(ctx context.Context, topic, subscription string) (bool, error)
}

var (
	_ prober = (*pubsub.Broker)(nil)
	_ prober = (*nats.Broker)(nil)
)

// checkWebhook sends HEAD, because a POST without events might be rejected.
func checkWebhook(ctx context.Context, address, where string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, http.NoBody)
	if err != nil {
		return "", errcode.New(errcode.Invalid, "the URL is not valid")
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return "", errcode.NoAnswer(where, err)
	}
	switch code := resp.StatusCode; {
	case code >= http.StatusInternalServerError && code != http.StatusNotImplemented:
		return "", errors.Join(fmt.Errorf("%s answers %s", where, resp.Status), resp.Body.Close())
	case code >= 300 && code < 400:
		return "", errors.Join(fmt.Errorf("%s redirects (%s): events are not sent to another URL", where, resp.Status), resp.Body.Close())
	}
	return where, resp.Body.Close()
}

// open fails if once is set and no server is reachable.
func open(ctx context.Context, u *url.URL, once bool) (b broker.Broker, names []string, err error) {
	switch u.Scheme {
	case "pubsub":
		b, err = pubsub.Open(ctx, pubsub.Options{Project: u.Host, Emulator: u.Query().Get("emulator")})
	case "nats", "tls":
		server := url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}
		b, err = nats.Open(nats.Options{URL: server.String(), Credentials: u.Query().Get("credentials"), Once: once})
	default:
		err = errcode.New(errcode.Invalid, "no such broker")
	}
	if err != nil {
		return nil, nil, err
	}
	return b, strings.Split(strings.Trim(u.Path, "/"), "/"), nil
}
