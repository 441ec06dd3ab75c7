package adminapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/operate"
	"holdfast/internal/operate/adminapi"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// TestBackgroundJob checks that a background job is answered with 202 and its run's location, and can be stopped.
func TestBackgroundJob(t *testing.T) {
	t.Parallel()
	started := make(chan string)
	all := operate.InBackground([]operate.Operation{
		operate.NewJob(operate.About{Path: "walls/build", Doc: "Build", Background: true}, func(ctx context.Context, in paint, _ operate.Progress) (wall, error) {
			started <- in.Wall
			<-ctx.Done()
			return wall{}, ctx.Err()
		}),
	})
	runs := operate.RunsOf(all)
	runs.Begin(t.Context(), time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(runs.End)
	api := adminapi.New("house", all)
	base := webtest.Serve(t, web.Service{Serve: api.Serve, Error: adminapi.WriteError, Route: api.Label}, web.Options{Log: slog.New(slog.DiscardHandler)}).URL
	ask := func(status int, method, path, body string) (*http.Response, map[string]any) {
		t.Helper()
		resp, err := http.DefaultClient.Do(webtest.Request(t, base, method, path, strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		var answer map[string]any
		if err != nil || json.Unmarshal(text, &answer) != nil || resp.StatusCode != status {
			t.Fatalf("%s %s: %d %s, %v", method, path, resp.StatusCode, text, err)
		}
		return resp, answer
	}
	ask(http.StatusUnprocessableEntity, http.MethodPost, "/house/walls/a/build", `{"coats":"x"}`)
	resp, answer := ask(http.StatusAccepted, http.MethodPost, "/house/walls/a/build", `{"coats":3}`)
	at := resp.Header.Get("Location")
	if id, _ := answer["id"].(string); at != "/house/runs/"+id || id == "" || answer["state"] != "running" {
		t.Errorf("%s: %v", at, answer)
	}
	if name := <-started; name != "a" {
		t.Errorf("the subject is %s", name)
	}
	ask(http.StatusConflict, http.MethodPost, "/house/walls/b/build", "")
	if _, answer = ask(http.StatusOK, http.MethodGet, at, ""); answer["state"] != "running" || answer["operation"] != "walls/build" {
		t.Errorf("%v", answer)
	}
	ask(http.StatusOK, http.MethodPost, at+"/stop", "")
	for answer["state"] != "stopped" {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		_, answer = ask(http.StatusOK, http.MethodGet, at, "")
	}
	ask(http.StatusConflict, http.MethodPost, at+"/stop", "")
	ask(http.StatusNotFound, http.MethodGet, "/house/runs/other", "")
	if _, answer = ask(http.StatusOK, http.MethodGet, "/house/runs", ""); len(answer["runs"].([]any)) != 1 {
		t.Errorf("%v", answer)
	}
}
