package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"holdfast/internal/testdb"
)

// pocketBase stores extension records in a collection with a JSON field that signed-in users may read and write.
// PocketBase commits to SQLite without syncing the disk.
type pocketBase struct {
	admin string
	ids   [][]string
}

const (
	pocketRecords = "/api/collections/records/records"
	pocketUsers   = "/api/collections/users"
	pocketMail    = "bench@example.org"
	pocketWord    = "correct horse battery"
)

func (o *options) withPocketBase(ctx context.Context, fn func(*side) error) error {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	s := &server{engine: &engine{name: "pocketbase"}, binary: o.pocketBase, dir: dir, next: 1}
	p := &pocketBase{}
	if err = p.start(ctx, s); err == nil {
		err = fn(&side{name: "PocketBase", service: p, engine: s.engine, server: s})
	}
	return errors.Join(err, s.remove())
}

func (p *pocketBase) start(ctx context.Context, s *server) (err error) {
	if s.listen, err = testdb.FreePort(); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, s.binary, "superuser", "upsert", pocketMail, pocketWord, "--dir", s.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", s.binary, err, out)
	}
	if err := p.serve(ctx, s); err != nil {
		return err
	}
	if p.admin, err = p.signIn(ctx, s, "/api/collections/_superusers", pocketMail); err != nil {
		return err
	}
	const signedIn = `@request.auth.id != ""`
	return p.call(ctx, s, http.MethodPost, "/api/collections", map[string]any{
		"name": "records", "type": "base", "fields": []any{map[string]any{"name": "value", "type": "json"}},
		"listRule": signedIn, "viewRule": signedIn, "createRule": signedIn, "updateRule": signedIn,
	}, nil)
}

func (p *pocketBase) serve(ctx context.Context, s *server) error {
	if err := s.run(exec.Command(s.binary, "serve", "--http", s.listen, "--dir", s.data())); err != nil {
		return err
	}
	return s.until(ctx, func() error { return p.call(ctx, s, http.MethodGet, "/api/health", nil, nil) })
}

func (p *pocketBase) signIn(ctx context.Context, s *server, collection, mail string) (string, error) {
	var answer struct {
		Token string `json:"token"`
	}
	err := p.call(ctx, s, http.MethodPost, collection+"/auth-with-password", map[string]string{"identity": mail, "password": pocketWord}, &answer)
	return answer.Token, err
}

func (p *pocketBase) call(ctx context.Context, s *server, method, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.listen+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", p.admin)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %.200s", method, path, resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func (p *pocketBase) owner(s *server, n int) (credentials, error) {
	ctx, mail := context.Background(), strconv.Itoa(n)+"@example.org"
	user := map[string]string{"email": mail, "password": pocketWord, "passwordConfirm": pocketWord}
	if err := p.call(ctx, s, http.MethodPost, pocketUsers+"/records", user, nil); err != nil {
		return credentials{}, err
	}
	token, err := p.signIn(ctx, s, pocketUsers, mail)
	return credentials{
		Endpoint: "http://" + s.listen + pocketRecords,
		sign:     func(req *http.Request) error { req.Header.Set("Authorization", token); return nil },
	}, err
}

func (p *pocketBase) settings(*engine) []string { return nil }

func (p *pocketBase) limit(context.Context, *options, *engine, int) (limit, error) {
	return nil, errors.New("PocketBase is not compared with a limit")
}

func (p *pocketBase) fill(ctx context.Context, _ *engine, owners []credentials) error {
	all, hangUp, err := dialAll(ctx, owners[:1])
	if err != nil {
		return err
	}
	defer hangUp()
	p.ids = nil
	for range owners {
		var ids []string
		for range extKeys {
			answer, err := all[0].send(ctx, http.MethodPost, "", []byte(`{"value":`+extValue+`}`), "")
			if err != nil {
				return err
			}
			var made struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(answer, &made); err != nil {
				return err
			}
			ids = append(ids, made.ID)
		}
		p.ids = append(p.ids, ids)
	}
	return nil
}

func (p *pocketBase) operations() []operation {
	body := []byte(`{"value":` + extValue + `}`)
	record := func(i int) string { return "/" + p.ids[i/extKeys%len(p.ids)][i%extKeys] }
	return []operation{
		{name: workExtPut, do: func(ctx context.Context, c *caller, i int) error {
			_, err := c.send(ctx, http.MethodPatch, record(i), body, "")
			return err
		}},
		{name: workExtGet, do: func(ctx context.Context, c *caller, i int) error {
			_, err := c.send(ctx, http.MethodGet, record(i), nil, "")
			return err
		}},
		{name: workExtList, do: func(ctx context.Context, c *caller, _ int) error {
			answer, err := c.send(ctx, http.MethodGet, "?skipTotal=1&perPage="+strconv.Itoa(extKeys), nil, "")
			if found := bytes.Count(answer, []byte(`"theme":`)); err == nil && found != extKeys {
				err = fmt.Errorf("%d records, want %d", found, extKeys)
			}
			return err
		}},
	}
}

func (o *options) pocketStart(ctx context.Context, out io.Writer) error {
	return o.withPocketBase(ctx, func(peer *side) error {
		s, p := peer.server, peer.service.(*pocketBase)
		ready, memory, err := s.restarts(ctx, o, func(ctx context.Context) error { return p.serve(ctx, s) })
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\nPocketBase (%s) answers %s after its start and then has %s.\n", filepath.Base(o.pocketBase), ms(medianTime(ready)), mb(medianSize(memory)))
		return nil
	})
}
