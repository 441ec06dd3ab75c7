package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
)

// holdTime is how long the garbage collection waits for a backup that died.
const holdTime = 5 * time.Minute

// nodesFolder is the folder of a backup with a folder for each configured node. That of
// the node in the data folder has the same name in the backup.
const nodesFolder = Name + ".nodes"

// files backs up the bodies on file nodes.
func (s *Buckets) files() *service.Files {
	return &service.Files{
		Hold: func(ctx context.Context) (context.Context, func(), error) { return s.maintenance.Hold(ctx, holdTime) },
		Copy: s.copyBodies, Omitted: s.omitted,
	}
}

// where returns the URL of each storage node that may have bodies: not of removed ones.
func (s *Buckets) where(ctx context.Context) (map[string]string, error) {
	known, err := s.nodes.service.Nodes(ctx)
	if err != nil {
		return nil, err
	}
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
	return all, nil
}

// isFile reports whether a node is a folder.
func isFile(url string) bool { return strings.HasPrefix(url, "file:") }

// omitted says which nodes a backup without bodies lacks.
func (s *Buckets) omitted(ctx context.Context) (lines []string, err error) {
	all, err := s.where(ctx)
	for id, url := range all {
		lines = append(lines, fmt.Sprintf("the bodies on storage node %s, %s", id, url))
	}
	slices.Sort(lines)
	return lines, err
}

// copyBodies copies every body on file nodes into their folders of a backup.
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
		folders[id] = filepath.Join(dir, name)
		copied.Names = append(copied.Names, name)
	}
	slices.Sort(copied.Names)
	bodies, err := s.maintenance.CopyBodies(ctx, dir, folders, progress)
	for id, n := range bodies.Elsewhere {
		copied.Missing = append(copied.Missing, fmt.Sprintf("%s only on storage node %s, %s", countOf(n, "body", "bodies"), id, cmp.Or(all[id], "which is not configured")))
	}
	slices.Sort(copied.Missing)
	copied.Lost = bodies.Lost
	return copied, err
}
