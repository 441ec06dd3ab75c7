package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/replica"
)

// holdTime is how long garbage collection is delayed after a backup crashed.
const holdTime = 5 * time.Minute

const nodesFolder = Name + ".nodes"

func (s *Buckets) files() *service.Files {
	return &service.Files{
		Hold: func(ctx context.Context) (context.Context, func(), error) { return s.maintenance.Hold(ctx, holdTime) },
		Copy: s.copyBodies, Omitted: s.omitted, Restore: s.restoreBodies,
		Bodies: &replica.Bodies{Each: s.eachBody, Watch: s.watch},
	}
}

func (s *Buckets) where(ctx context.Context) (map[string]string, error) {
	known, err := s.nodes.service.Nodes(ctx)
	return s.urls(known), err
}

func (s *Buckets) urls(known []buckets.Node) map[string]string {
	all, configured := map[string]string{}, s.nodes.configured()
	for _, n := range known {
		if n.State == buckets.NodeRemoved {
			continue
		}
		all[n.ID] = n.URL
		if url, ok := configured[n.ID]; ok {
			all[n.ID] = url
		}
	}
	return all
}

func isFile(url string) bool { return strings.HasPrefix(url, "file:") }

// omitted lists the nodes whose bodies a backup lacks.
func (s *Buckets) omitted(ctx context.Context) (lines []string, err error) {
	all, err := s.where(ctx)
	for id, url := range all {
		lines = append(lines, fmt.Sprintf("the bodies on storage node %s, %s", id, url))
	}
	slices.Sort(lines)
	return lines, err
}

func (s *Buckets) copyBodies(ctx context.Context, dir string, progress func(done, total int64)) (copied service.Copied, err error) {
	if err := s.nodes.load(ctx); err != nil {
		return copied, err
	}
	defer func() { err = errors.Join(err, s.nodes.close()) }()
	s.cluster.Report = func(f blobs.Finding) {
		if f.Problem != blobs.Missing { // it may be garbage
			s.report(f)
		}
	}
	return s.copied(ctx, func(folders map[string]string) (maintenance.Copied, error) {
		return s.maintenance.CopyBodies(ctx, dir, folders, progress)
	})
}

func (s *Buckets) restoreBodies(ctx context.Context, dir string, open service.FileSource, progress func(done, total int64)) (service.Copied, error) {
	return s.copied(ctx, func(folders map[string]string) (maintenance.Copied, error) {
		return s.maintenance.RestoreBodies(ctx, dir, folders, maintenance.Source(open), progress)
	})
}

func (s *Buckets) copied(ctx context.Context, fn func(folders map[string]string) (maintenance.Copied, error)) (copied service.Copied, err error) {
	all, err := s.where(ctx)
	if err != nil {
		return copied, err
	}
	folders := map[string]string{}
	for id, url := range all {
		if !isFile(url) {
			continue
		}
		name := Name
		if len(s.cfg.Nodes) > 0 || id != localNode {
			name = filepath.Join(nodesFolder, strings.Replace(id, ":", ",", 1))
		}
		folders[id] = name
		copied.Names = append(copied.Names, name)
	}
	slices.Sort(copied.Names)
	bodies, err := fn(folders)
	copied.Missing, copied.Lost = missing(bodies.Elsewhere, all), bodies.Lost
	return copied, err
}

func missing(elsewhere map[string]int64, urls map[string]string) (lines []string) {
	for id, n := range elsewhere {
		lines = append(lines, fmt.Sprintf("%s only on storage node %s, %s", countOf(n, "body", "bodies"), id, cmp.Or(urls[id], "which is not configured")))
	}
	slices.Sort(lines)
	return lines
}

func (s *Buckets) eachBody(ctx context.Context, fn func(replica.Body) error) (omitted []string, err error) {
	if err := s.nodes.ensure(ctx); err != nil {
		return nil, err
	}
	all, err := s.where(ctx)
	if err != nil {
		return nil, err
	}
	elsewhere := map[string]int64{}
	err = s.maintenance.Bodies(ctx, func(path string, r buckets.Reference) error {
		if !slices.ContainsFunc(r.Sharks, func(id string) bool { return isFile(all[id]) }) {
			elsewhere[r.Sharks[0]]++
			return nil
		}
		return fn(s.body(path, r))
	})
	return missing(elsewhere, all), err
}

func (s *Buckets) body(path string, r buckets.Reference) replica.Body {
	return replica.Body{Name: path, Size: r.Length, Open: func(ctx context.Context) (io.ReadCloser, error) {
		return s.cluster.Open(ctx, path, r, 0, -1)
	}}
}

func (s *Buckets) watch(written func(replica.Body) (settled func(kept bool))) {
	s.watcher.Store(&written)
}

func (s *Buckets) written(r buckets.Reference) (settled func(kept bool)) {
	watcher := s.watcher.Load()
	if watcher == nil || !slices.ContainsFunc(r.Sharks, s.nodes.isFolder) {
		return func(bool) {}
	}
	return (*watcher)(s.body(buckets.BodyPath(r.Owner, r.Bucket, r.ID, r.Name), r))
}
