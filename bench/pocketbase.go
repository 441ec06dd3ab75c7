package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
)

// pocketBase stores extension records in a collection with a JSON field that signed-in users may read and write.
// PocketBase commits to SQLite without syncing the disk.
type pocketBase struct {
	binary, admin string
	ids           [][]string
}

const (
	pocketRecords = "/api/collections/records/records"
	pocketUsers   = "/api/collections/users"
	pocketMail    = "bench@example.org"
	pocketWord    = "correct horse battery"
)

// on is an onSide; PocketBase has only its own SQLite.
func (p *pocketBase) on(ctx context.Context, _ string, fn func(*server) error) error {
	return onPeer(p, func(s *server) error {
		if err := p.create(ctx, s); err != nil {
			return err
		}
		return fn(s)
	})
}

// create starts PocketBase in an empty folder, and creates the collection as its administrator.
func (p *pocketBase) create(ctx context.Context, s *server) (err error) {
	if out, err := exec.CommandContext(ctx, p.binary, "superuser", "upsert", pocketMail, pocketWord, "--dir", s.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", p.binary, err, out)
	}
	if err := p.start(ctx, s); err != nil {
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

func (p *pocketBase) start(ctx context.Context, s *server) error {
	ready := func() error { return p.call(ctx, s, http.MethodGet, "/api/health", nil, nil) }
	return s.run(ctx, ready, p.binary, "serve", "--http", s.listen, "--dir", s.data())
}

// starts adds a sentence about starts and idle memory to the comparison.
func (p *pocketBase) starts(ctx context.Context, o *options, out io.Writer) error {
	return p.on(ctx, "", func(peer *server) error {
		ready, memory, err := peer.restarts(o, func() error { return p.start(ctx, peer) })
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\nPocketBase (%s) answers %s after its start and then has %s.\n", filepath.Base(p.binary), text(median(ready)), text(size64(median(memory))))
		return nil
	})
}

// signIn returns a token for the API.
func (p *pocketBase) signIn(ctx context.Context, s *server, collection, mail string) (string, error) {
	var answer struct {
		Token string `json:"token"`
	}
	err := p.call(ctx, s, http.MethodPost, collection+"/auth-with-password", map[string]string{"identity": mail, "password": pocketWord}, &answer)
	return answer.Token, err
}

// call sends JSON as the administrator; see caller.json.
func (p *pocketBase) call(ctx context.Context, s *server, method, path string, body, answer any) error {
	return with(ctx, p.credentials(s, "", p.admin), func(c *caller) error { return c.json(ctx, method, path, body, answer) })
}

func (p *pocketBase) credentials(s *server, path, token string) credentials {
	return credentials{Endpoint: "http://" + s.listen + path, sign: func(req *http.Request) error { req.Header.Set("Authorization", token); return nil }}
}

// owner creates a user, and signs it in.
func (p *pocketBase) owner(s *server, n int) (credentials, error) {
	ctx, mail := context.Background(), strconv.Itoa(n)+"@example.org"
	user := map[string]string{"email": mail, "password": pocketWord, "passwordConfirm": pocketWord}
	if err := p.call(ctx, s, http.MethodPost, pocketUsers+"/records", user, nil); err != nil {
		return credentials{}, err
	}
	token, err := p.signIn(ctx, s, pocketUsers, mail)
	return p.credentials(s, pocketRecords, token), err
}

// fill creates the records, whose IDs PocketBase chooses.
func (p *pocketBase) fill(ctx context.Context, _ *server, owners []credentials) error {
	p.ids = make([][]string, len(owners))
	return with(ctx, owners[0], func(c *caller) error {
		for i := range p.ids {
			for range extKeys {
				var made struct {
					ID string `json:"id"`
				}
				if err := c.json(ctx, http.MethodPost, "", map[string]json.RawMessage{"value": json.RawMessage(extValue)}, &made); err != nil {
					return err
				}
				p.ids[i] = append(p.ids[i], made.ID)
			}
		}
		return nil
	})
}

func (p *pocketBase) operations() []operation {
	body := []byte(`{"value":` + extValue + `}`)
	record := func(i int) string { return "/" + p.ids[i/extKeys%len(p.ids)][i%extKeys] }
	return []operation{
		{name: workExtPut, do: func(ctx context.Context, c *caller, i int) error {
			return c.call(ctx, http.MethodPatch, record(i), body)
		}},
		{name: workExtGet, do: func(ctx context.Context, c *caller, i int) error {
			return c.call(ctx, http.MethodGet, record(i), nil)
		}},
		{name: workExtList, do: func(ctx context.Context, c *caller, _ int) error {
			return c.list(ctx, "?skipTotal=1&perPage="+strconv.Itoa(extKeys), `"theme":`, extKeys)
		}},
	}
}
