package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
)

const (
	// inspectTime limits how long holdfast check waits for the nodes.
	inspectTime = 5 * time.Second
	// lateGarbage is how long after buckets.garbage_after garbage causes a warning.
	lateGarbage = 24 * time.Hour
)

// inspect asks every node for its space, and checks copies, garbage, access keys, plain names and settings. It writes
// nothing; a node that is not initialized yet stays so.
func (s *Buckets) inspect(ctx context.Context) (findings []service.Finding, err error) {
	if !s.nodes.isLoaded() { // this is a command, not a server
		if err := s.nodes.load(ctx); err != nil {
			return nil, err
		}
		defer func() { _ = s.nodes.close() }()
	}
	known, err := s.nodes.service.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	urls := s.urls(known)
	const what = "buckets nodes"
	limited, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	s.cluster.Refresh(limited)
	all, active, reached := s.cluster.Nodes(), 0, 0
	for i := range all {
		n := &all[i]
		f := inspectNode(n, urls[n.ID])
		f.What = what
		findings = append(findings, f)
		if n.State == buckets.NodeActive {
			active++
			if f.State != service.Wrong {
				reached++
			}
		}
	}
	configured := s.nodes.configured()
	for _, id := range slices.Sorted(maps.Keys(configured)) {
		if _, used := urls[id]; used {
			continue
		}
		if slices.ContainsFunc(known, func(n buckets.Node) bool { return n.ID == id }) {
			if len(s.cfg.Nodes) > 0 { // otherwise it is the default node, which nobody configured
				findings = append(findings, service.Finding{
					State: service.Warning, What: what, Says: id + ", " + configured[id] + ", was removed and is not used, but buckets.nodes still has it", Fix: errConfigured.Error(),
				})
			}
			continue
		}
		active++
		f := inspectNew(id, configured[id], s.missingData())
		f.What = what
		findings = append(findings, f)
		if f.State != service.Wrong {
			reached++
		}
	}
	copies := cmp.Or(s.live.Load().Copies, s.cluster.Copies())
	if reached < copies {
		findings = append(findings, service.Finding{
			State: service.Wrong, What: what, Says: fmt.Sprintf("%d of %d active nodes accept bodies, and each body has %s", reached, active, copiesOf(copies)),
			Fix: "repair or add nodes (holdfast buckets nodes add), or lower buckets.copies",
		})
	}
	f, err := s.inspectGarbage(ctx)
	if err != nil {
		return nil, err
	}
	damages, err := s.inspectDamages(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := s.inspectKeys(ctx)
	if err != nil {
		return nil, err
	}
	names, err := s.inspectNames(ctx)
	if err != nil {
		return nil, err
	}
	settings, err := s.inspectSettings(ctx)
	return slices.Concat(findings, damages, []service.Finding{f, keys}, names, settings), err
}

// copiesOf formats a number, e.g. "2 copies".
func copiesOf(n int) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}

// missingData returns the data folder if it does not exist yet, or "". The server creates it.
func (s *Buckets) missingData() string {
	if _, err := os.Stat(s.deps.Data); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return s.deps.Data
}

// isIn reports whether path is directly in folder.
func isIn(path, folder string) bool {
	abs, err := filepath.Abs(folder)
	return folder != "" && err == nil && filepath.Dir(filepath.Clean(path)) == abs
}

// inspectNew checks whether a configured node could be initialized. missing is a folder that the server will create; a
// node directly in it may be missing, too.
func inspectNew(id, address, missing string) service.Finding {
	name := id + ", " + address
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" && !isIn(u.Path, missing) {
		if err := filedriver.CheckInit(u.Path, id); err != nil {
			return service.Finding{State: service.Wrong, Says: name + ": " + err.Error(), Fix: "afterwards the server uses the node within seconds; or correct its URL in buckets.nodes"}
		}
	}
	return service.Finding{State: service.OK, Says: name + ", will be initialized at the next start"}
}

// inspectNode reports a node's first problem, the worst first.
func inspectNode(n *blobs.Status, url string) service.Finding {
	name := n.ID + ", " + url
	switch {
	case n.Err != nil:
		return service.Finding{State: service.Wrong, Says: name + ": " + n.Err.Error(), Fix: "mount its disk, or correct buckets.nodes; clients read other copies meanwhile"}
	case !n.HasSpace:
		return service.Finding{State: service.Wrong, Says: fmt.Sprintf("%s does not respond within %s", name, inspectTime), Fix: "look at its disk or its network"}
	}
	says := name
	if n.Space.Total > 0 {
		says += fmt.Sprintf(": %s of %s free", service.FormatBytes(n.Space.Free), service.FormatBytes(n.Space.Total))
	}
	if n.State != buckets.NodeActive {
		return service.Finding{State: service.OK, Says: says + ", " + string(n.State) + ": it gets no new bodies"}
	}
	const fix = "make space, or add a node: holdfast buckets nodes add"
	switch {
	case n.Space.ReadOnly:
		return service.Finding{State: service.Wrong, Says: says + ": it is read-only", Fix: "mount the file system writable, or let the server's user write to the folder; the kernel mounts a broken disk read-only"}
	case n.Space.Total > 0 && !n.Space.Fits(0):
		return service.Finding{State: service.Wrong, Says: says + ": it is full", Fix: fix}
	case n.Space.Total > 0 && n.Space.Free < n.Space.Total/10:
		return service.Finding{State: service.Warning, Says: says, Fix: fix}
	}
	return service.Finding{State: service.OK, Says: says}
}

// inspectGarbage warns about bodies that should have been removed a day ago.
func (s *Buckets) inspectGarbage(ctx context.Context) (f service.Finding, err error) {
	f = service.Finding{State: service.OK, What: "buckets garbage"}
	b, err := s.opened.Backlog(ctx)
	if err != nil {
		return f, err
	}
	now := s.deps.Clock()
	f.Says = fmt.Sprintf("%s with %s", service.Count(b.Rows, "deleted object"), service.FormatBytes(b.Bytes))
	if b.Held != 0 {
		f.Says += ", kept while a backup runs"
	}
	if b.Oldest != 0 && now.Sub(b.Oldest.Time()) > s.live.Load().GarbageAfter+lateGarbage {
		f.State = service.Warning
		f.Says += ", the oldest for " + now.Sub(b.Oldest.Time()).Round(time.Hour).String()
		f.Fix = "start the server, and look for \"a sweep failed\" in its log: a storage node may be unreachable"
	}
	return f, err
}

// mostKeys limits how many access keys a check decrypts. The sample is random, because key IDs are random.
const mostKeys = 4 * buckets.MaxPage

// inspectKeys decrypts access keys, to find out whether the key secret is the one that encrypted them.
func (s *Buckets) inspectKeys(ctx context.Context) (f service.Finding, err error) {
	f = service.Finding{State: service.OK, What: "buckets keys"}
	var total, unreadable int64
	unknown := s.deps.Unsaved[Name+".key_secret"]
	for after, more := "", true; more && total < mostKeys; {
		page, err := s.opened.ListKeys(ctx, after, buckets.MaxPage)
		if err != nil {
			return f, err
		}
		for _, k := range page {
			after = k.ID
			if total++; k.Revoked != 0 || unknown {
				continue
			}
			if _, err := s.keys.Secret(k); err != nil {
				unreadable++
			}
		}
		more = len(page) == buckets.MaxPage
	}
	f.Says = service.Count(total, "access key")
	if total == mostKeys {
		f.Says = fmt.Sprintf("at least %d access keys, %d examined", total, total)
	}
	if unknown && total > 0 {
		f.Says += "; not decrypted without the secret"
	}
	if unreadable > 0 {
		f.State = service.Wrong
		f.Says += fmt.Sprintf(", %d encrypted with another buckets.key_secret", unreadable)
		f.Fix = "set buckets.key_secret to the old secret, or add the old secret to buckets.old_key_secrets; only if it is lost for good, create new keys"
	}
	return f, nil
}
