package firefox

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// startHoldfast runs the binary on the embedded default, with accountsURL as
// its accounts server, and returns its address when it is ready.
func startHoldfast(t *testing.T, binary, accountsURL string) (string, error) {
	ctx, cancel := bounded(t)
	defer cancel()
	listen, admin, err := freeAddresses()
	if err != nil {
		return "", err
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + t.TempDir(),
		"HOLDFAST_SERVER__LISTEN=" + listen,
		"HOLDFAST_SERVER__ADMIN_LISTEN=" + admin,
		"SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + accountsURL,
	}
	p, err := start(t, "holdfast", env, binary, "serve", "--data", t.TempDir())
	if err != nil {
		return "", err
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !ready(ctx, "http://"+admin+"/readyz") {
		select {
		case <-again.C:
		case <-p.ended:
			return "", fmt.Errorf("holdfast ended before it was ready")
		case <-ctx.Done():
			return "", fmt.Errorf("holdfast is not ready: %w", context.Cause(ctx))
		}
	}
	return "http://" + listen, nil
}

func ready(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// freeAddresses are two loopback addresses that nobody listens on.
func freeAddresses() (a, b string, err error) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer first.Close()
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer second.Close()
	return first.Addr().String(), second.Addr().String(), nil
}
