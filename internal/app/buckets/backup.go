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

// nodesFolder is the folder in a backup, and in the data folder, with a folder for each configured node.
const nodesFolder = Name + ".nodes"

// files lets backups and the replica copy bodies that are not in the database. Bodies that are only on nodes in cloud
// buckets are not copied; the backup lists them.
func (s *Buckets) files() *service.Files {
	return &service.Files{
		Hold: func(ctx context.Context) (context.Context, func(), error) { return s.maintenance.Hold(ctx, holdTime) },
		Copy: s.copyBodies, Omitted: s.omitted, Restore: s.restoreBodies,
		Bodies: &replica.Bodies{Each: s.eachBody, Watch: s.watch},
	}
}

// where returns all nodes' URLs by ID, as urls does.
func (s *Buckets) where(ctx context.Context) (map[string]string, error) {
	known, err := s.nodes.service.Nodes(ctx)
	return s.urls(known), err
}

// urls leaves out removed nodes. The configuration's URL counts more than the database's, which may be from before a
// move.
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

// isFile reports whether a node is a folder on this machine.
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

// copyBodies copies the bodies on folders to a backup. Only the command calls it, so it opens and closes the nodes.
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

// restoreBodies writes a restored database's bodies into the data folder.
func (s *Buckets) restoreBodies(ctx context.Context, dir string, open service.FileSource, progress func(done, total int64)) (service.Copied, error) {
	return s.copied(ctx, func(folders map[string]string) (maintenance.Copied, error) {
		return s.maintenance.RestoreBodies(ctx, dir, folders, maintenance.Source(open), progress)
	})
}

// copied calls fn with the folder for each node that is a folder, relative to the backup or the data folder: the local
// node has its own, configured nodes are below nodesFolder.
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

// missing returns a line for each node with bodies that are on no folder. elsewhere counts bodies by node.
func missing(elsewhere map[string]int64, urls map[string]string) (lines []string) {
	for id, n := range elsewhere {
		lines = append(lines, fmt.Sprintf("%s only on storage node %s, %s", countOf(n, "body", "bodies"), id, cmp.Or(urls[id], "which is not configured")))
	}
	slices.Sort(lines)
	return lines
}

// eachBody calls fn for each body that a replica copies. Bodies without a copy on a folder are omitted, and counted in
// omitted.
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

// body names a body by its path, which is the same on all nodes. Open reads any good copy.
func (s *Buckets) body(path string, r buckets.Reference) replica.Body {
	return replica.Body{Name: path, Size: r.Length, Open: func(ctx context.Context) (io.ReadCloser, error) {
		return s.cluster.Open(ctx, path, r, 0, -1)
	}}
}

// watch sets the replica's function, which is called for each new body from now on.
func (s *Buckets) watch(written func(replica.Body) (settled func(kept bool))) {
	s.watcher.Store(&written)
}

// written tells the replica about a new body, if the body is on a folder. It is called between writing the body and
// committing its row; see replica.Bodies.Watch.
func (s *Buckets) written(r buckets.Reference) (settled func(kept bool)) {
	watcher := s.watcher.Load()
	if watcher == nil || !slices.ContainsFunc(r.Sharks, s.nodes.isFolder) {
		return func(bool) {}
	}
	return (*watcher)(s.body(buckets.BodyPath(r.Owner, r.Bucket, r.ID, r.Name), r))
}
