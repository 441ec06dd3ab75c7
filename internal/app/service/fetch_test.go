package service_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
)

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String() + "/x"
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := service.Fetch(t.Context(), closed); fmt.Sprint(err) != "no answer from "+closed+": connection refused" {
		t.Errorf("a closed port: %v", err)
	}
	lookup := &net.DNSError{Err: "no such host", Name: "host.invalid", IsNotFound: true}
	for err, want := range map[error]string{
		fmt.Errorf("lookup: %w", lookup):                 "no answer from a: unknown host host.invalid",
		fmt.Errorf("dial: %w", context.DeadlineExceeded): "no answer from a: timed out",
		http.ErrServerClosed:                             "no answer from a: http: Server closed",
	} {
		if got := errcode.NoAnswer("a", err).Error(); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
