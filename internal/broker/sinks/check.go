package sinks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast/internal/errcode"
)

const checkTime = 5 * time.Second

// Check connects to a configured webhook or broker without changing anything. result contains no secrets.
func (b Brokers) Check(ctx context.Context, setting string) (result string, err error) {
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
	opened, names, err := b.open(ctx, u, true)
	if err != nil {
		return "", fmt.Errorf("%s: %s", where, errcode.NetworkReason(err))
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	topic, subscription := names[0], ""
	if len(names) > 1 {
		subscription = names[1]
	}
	found, err := opened.Exists(ctx, topic, subscription)
	if err != nil {
		return "", fmt.Errorf("%s: %s", where, errcode.NetworkReason(err))
	}
	if !found {
		return where + ": the server will create it", nil
	}
	return where, nil
}

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
func (b Brokers) open(ctx context.Context, u *url.URL, once bool) (opened Broker, names []string, err error) {
	connect, ok := b[u.Scheme]
	if !ok {
		return nil, nil, errcode.New(errcode.Invalid, "no such broker")
	}
	if opened, err = connect(ctx, u, once); err != nil {
		return nil, nil, err
	}
	return opened, strings.Split(strings.Trim(u.Path, "/"), "/"), nil
}
