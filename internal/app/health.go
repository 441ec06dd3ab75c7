package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"holdfast/internal/app/service"
)

// Health asks the admin listener of a running server whether it is ready. If not, the
// error has the reason.
func Health(ctx context.Context, cfg *Config) error {
	if cfg.Server.AdminListen == "" {
		return errors.New("server.admin_listen is empty: the server has no listener to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // longer than /readyz takes
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cfg.Server.AdminListen+"/readyz", nil)
	if err != nil {
		return err
	}
	// A transport without the proxies of the environment, which are for other hosts.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return service.NoAnswer(req.URL.String(), err)
	}
	defer resp.Body.Close()
	says, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var body struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(says, &body); err != nil || body.Error.Message == "" {
			return fmt.Errorf("not ready: status %d", resp.StatusCode)
		}
		return fmt.Errorf("not ready: %s", body.Error.Message)
	}
	return nil
}
