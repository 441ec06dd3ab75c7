// Package sync is the Firefox Sync workload: a client that signs with Hawk, a user's writers, and the expected record
// state.
package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/workload"
)

// Credentials are the JSON from a tokenserver and from `holdfast sync tokens create --json`.
type Credentials struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	UID      int64  `json:"uid"`
	Endpoint string `json:"api_endpoint"`
	Duration int64  `json:"duration"` // seconds
}

// Issue returns credentials like a tokenserver with the given master secret.
func Issue(secret, server string, claims tokenlib.Claims) (c Credentials, err error) {
	keys, err := tokenlib.NewKeyring(secret)
	if err != nil {
		return c, err
	}
	c.UID, c.Endpoint = claims.UID, fmt.Sprintf("%s/1.5/%d", server, claims.UID)
	c.ID, c.Key, err = keys.Mint(claims)
	return c, err
}

// Request returns a signed request; path is relative to the user's endpoint.
func (c Credentials) Request(ctx context.Context, method, path, body string) (*http.Request, error) {
	req, err := workload.NewRequest(ctx, method, c.Endpoint+path, body)
	if err != nil {
		return nil, err
	}
	hash := ""
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		hash = hawk.PayloadHash("application/json", []byte(body))
	}
	return req, hawk.SignHTTP(req, c.ID, c.Key, time.Now(), hash)
}

// Send sends a signed request once.
func (c Credentials) Send(method, path, body string) (workload.Answer, error) {
	return c.SendBy(context.Background(), http.DefaultClient, method, path, body)
}

// SendBy sends a signed request once. A network error says whether the connection was used before.
func (c Credentials) SendBy(ctx context.Context, client *http.Client, method, path, body string) (workload.Answer, error) {
	req, err := c.Request(ctx, method, path, body)
	if err != nil {
		return workload.Answer{}, err
	}
	var conn httptrace.GotConnInfo
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { conn = info }}
	a, err := workload.Do(client, req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil && a.Status == 0 {
		err = fmt.Errorf("%w (body of %d bytes, on a connection that was used before: %t, and idle for %v)", err, len(body), conn.Reused, conn.IdleTime)
	}
	return a, err
}

// Record is a BSO in JSON.
type Record struct {
	ID        string      `json:"id,omitempty"`
	Payload   string      `json:"payload"`
	Sortindex *int64      `json:"sortindex,omitempty"`
	Modified  json.Number `json:"modified,omitempty"`
}

// Records returns a POST body with a range of records.
func Records(from, to int, record func(n int) Record) string {
	all := make([]Record, 0, to-from)
	for n := from; n < to; n++ {
		all = append(all, record(n))
	}
	return JSON(all)
}

// JSON encodes strings and numbers.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Append returns the path that appends to a batch; "" opens a batch.
func Append(collection, batch string) string {
	if batch == "" {
		batch = "true"
	}
	return "/storage/" + collection + "?batch=" + url.QueryEscape(batch)
}

// Commit returns the path that commits a batch.
func Commit(collection, batch string) string { return Append(collection, batch) + "&commit=true" }

// Opened returns the batch ID in a POST's answer.
func Opened(answer []byte) (id string, err error) {
	var a struct {
		Batch string `json:"batch"`
	}
	err = json.Unmarshal(answer, &a)
	return a.Batch, err
}
