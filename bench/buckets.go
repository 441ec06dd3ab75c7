package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
)

type bucketsLoad struct{ *s3Load }

const bucketsListen = "HOLDFAST_BUCKETS__LISTEN="

func newBuckets(n *size) *bucketsLoad { return &bucketsLoad{newS3(n)} }

func (w *bucketsLoad) settings(e *engine) []string {
	return append(e.url("BUCKETS"), "HOLDFAST_BUCKETS__KEY_SECRET=the-key-secret-of-all-servers-of-a-bench")
}

func (w *bucketsLoad) enable() ([]string, error) {
	listen, err := testdb.FreePort()
	return []string{"HOLDFAST_BUCKETS__ENABLED=true", bucketsListen + listen}, err
}

func (w *bucketsLoad) owner(s *server, _ int) (credentials, error) {
	if s.access == nil {
		key, err := accessKey(s, "main")
		if err != nil {
			return credentials{}, err
		}
		listen := ""
		for _, kv := range s.env {
			if address, ok := strings.CutPrefix(kv, bucketsListen); ok {
				listen = address
			}
		}
		s.access = &credentials{Endpoint: "http://" + listen, sign: w.signer(key)}
	}
	return *s.access, nil
}

func accessKey(s *server, account string) (sigv4test.Signer, error) {
	cmd := exec.Command(s.binary, "buckets", "keys", "list", account, "--secrets")
	cmd.Env = s.env
	out, err := cmd.Output()
	if err != nil {
		return sigv4test.Signer{}, fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return buckets.ReadKey(string(out))
}

func (w *bucketsLoad) limit(ctx context.Context, _ *options, e *engine, _ int) (limit, error) {
	if e.postgres != nil {
		return openBucketsPostgres(ctx, e, w.s3Load)
	}
	return openBucketsSQLite(ctx, w.s3Load)
}

func (w *bucketsLoad) measureFiles(ctx context.Context, o *options, _ *engine, _ place, t *table) error {
	window, runs := o.brief()
	for _, n := range o.connections {
		var all []float64
		for range runs {
			f, err := newFiles(w.s3Load)
			if err != nil {
				return err
			}
			rate, err := f.window(ctx, workPutSmall, n, window)
			if err := errors.Join(err, f.close()); err != nil {
				return err
			}
			all = append(all, rate)
		}
		fmt.Fprintf(t.out, "| bare 4 KiB file, synced and renamed | – | %d | | %.0f | | | | | | | |\n", n, median(all, func(f float64) float64 { return f }))
	}
	return nil
}

const memoryGoal = 64 << 20

func bucketsMemoryHead(_ *options, out io.Writer) {
	fmt.Fprint(out, "| operation | engine | memory when idle | peak memory | above idle | goal | time |\n|---|---|--:|--:|--:|---|--:|\n")
}

func (w *bucketsLoad) memoryRow(out io.Writer, s *server, what string, do func() error) error {
	m, err := s.memory(do)
	if err != nil {
		return err
	}
	above := m.most - m.before
	fmt.Fprintf(out, "| %s a %s MiB object | %s | %s | %s | %s | %s | %.1f s |\n", what, thousands(int(w.size.huge>>20)), s.engine.name,
		mb(m.before), mb(m.most), mb(above), verdict(above <= memoryGoal, mb(memoryGoal)), m.took.Seconds())
	return nil
}

func verdict(met bool, goal string) string {
	if met {
		return goal
	}
	return "**missed** " + goal
}

func (w *bucketsLoad) measureMemory(ctx context.Context, o *options, e *engine, out io.Writer) error {
	own, err := w.enable()
	if err != nil {
		return err
	}
	return onServer(ctx, o, e, own, func(s *server) error {
		owner, err := w.owner(s, 1)
		if err != nil {
			return err
		}
		c, err := dial(ctx, owner)
		if err != nil {
			return err
		}
		defer c.hangUp()
		if err := c.exchange(ctx, http.MethodPut, s3Objects, nil, "", io.Discard); err != nil {
			return err
		}
		const key = s3Objects + "/huge"
		size := w.size.huge
		err = w.memoryRow(out, s, "stores", func() error {
			body := io.LimitReader(&repeatedly{data: w.body(s3Middle)}, size)
			return c.transfer(ctx, http.MethodPut, key, body, size, "", io.Discard)
		})
		if err != nil {
			return err
		}
		return w.memoryRow(out, s, "returns", func() error {
			var n counted
			err := c.exchange(ctx, http.MethodGet, key, nil, "", &n)
			if err == nil && int64(n) != size {
				err = fmt.Errorf("read %d bytes, want %d", n, size)
			}
			return err
		})
	})
}

type repeatedly struct {
	data []byte
	at   int
}

func (r *repeatedly) Read(p []byte) (int, error) {
	n := copy(p, r.data[r.at:])
	r.at = (r.at + n) % len(r.data)
	return n, nil
}

func bucketsKeysHead(o *options, out io.Writer) {
	window, runs := o.brief()
	fmt.Fprintf(out, "%v windows, median of %d, 1 connection. The ratio compares pages/s with the smallest bucket.\n\n", window, runs)
	fmt.Fprintln(out, "| keys in the bucket | engine | work | pages/s | ratio | goal | server CPU µs/op | engine CPU µs/op |\n|--:|---|---|--:|--:|---|--:|--:|")
}

// Parameters: bucket name, key count.
var (
	liteGrowBucket = []string{`
		WITH RECURSIVE k (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n < %[2]d - 1)
		INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, body)
		SELECT printf('00000000-0000-4000-8000-%%012d', n), printf('%%02d/%%012d', n / (%[2]d / 100), n), owner, id, created AS created, created AS modified, 1,
			x'0cc175b9c0f1b6a831c399e269772661', 'binary/octet-stream', x'61' FROM k JOIN manta_bucket ON name = '%[1]s'`}
	pgGrowBucket = []string{`
		INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, body)
		SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, lpad((n / (%[2]d / 100))::text, 2, '0') || '/' || lpad(n::text, 12, '0'),
			owner, id, created AS created, created AS modified, 1, '\x0cc175b9c0f1b6a831c399e269772661', 'binary/octet-stream', '\x61'
		FROM generate_series(0, %[2]d - 1) n JOIN manta_bucket ON name = '%[1]s'`,
		`VACUUM ANALYZE manta_bucket_object`, `CHECKPOINT`}
)

// pagesGoal is the minimum ratio between page rates: a page should cost the same for any number of keys.
const pagesGoal = 0.75

func (w *bucketsLoad) measureKeys(ctx context.Context, o *options, e *engine, out io.Writer) error {
	own, err := w.enable()
	if err != nil {
		return err
	}
	return onServer(ctx, o, e, own, func(s *server) error {
		owner, err := w.owner(s, 1)
		if err != nil {
			return err
		}
		var lines []*line
		for _, keys := range w.size.bucketKeys {
			name := fmt.Sprintf("keys-%d", keys)
			c, err := dial(ctx, owner)
			if err != nil {
				return err
			}
			err = c.exchange(ctx, http.MethodPut, "/"+name, nil, "", io.Discard)
			c.hangUp()
			if err == nil {
				err = s.past(ctx, bucketsFile(s.data()), script(liteGrowBucket, name, keys), script(pgGrowBucket, name, keys))
			}
			if err != nil {
				return err
			}
			lines = append(lines, &line{rows: keys, owners: []credentials{{Endpoint: owner.Endpoint + "/" + name, sign: owner.sign}}})
		}
		for _, work := range []struct{ name, query, of string }{
			{"page of 100", "list-type=2&max-keys=100&start-after=50", "<Key>"},
			{"100 groups", "delimiter=%2F&list-type=2&max-keys=1000", "<CommonPrefixes>"},
		} {
			if err := comparePages(ctx, o, s, lines, work.query, work.of); err != nil {
				return err
			}
			smallest := 0.0
			for i, l := range lines {
				pages := median(l.samples, func(s sample) float64 { return s.ops })
				ratio, goal := "–", "–"
				if i == 0 {
					smallest = pages
				} else {
					ratio, goal = fmt.Sprintf("%.2f", pages/smallest), verdict(pages >= pagesGoal*smallest, fmt.Sprintf("%.2f", pagesGoal))
				}
				fmt.Fprintf(out, "| %s | %s | %s | %.0f | %s | %s | %d | %s |\n", thousands(l.rows), e.name, work.name, pages, ratio, goal,
					median(l.samples, func(s sample) time.Duration { return s.cpu }).Microseconds(),
					engineCPU(median(l.samples, func(s sample) time.Duration { return s.engine })))
				l.samples = nil
			}
		}
		return nil
	})
}

func comparePages(ctx context.Context, o *options, s *server, lines []*line, query, of string) error {
	window, runs := o.brief()
	page := operation{do: func(ctx context.Context, c *caller, _ int) error {
		answer, err := c.send(ctx, http.MethodGet, "?"+query, nil, "")
		if found := strings.Count(string(answer), of); err == nil && found != 100 {
			err = fmt.Errorf("%d entries, want 100, in %.500s", found, answer)
		}
		return err
	}}
	for run := range 1 + runs {
		for _, l := range lines {
			p, err := page.load(ctx, s, l.owners, lasting(window))
			if err != nil {
				return err
			}
			if run > 0 {
				l.samples = append(l.samples, p.sample())
			}
		}
	}
	return nil
}
