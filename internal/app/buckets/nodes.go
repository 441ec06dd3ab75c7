package buckets

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/clouddriver"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// loadEvery is how often the nodes are read from the database, and refreshEvery is how
// often their free space is.
const (
	loadEvery    = 2 * time.Second
	refreshEvery = 10 * time.Second
)

// localNode is the node that a server without configured nodes has.
const localNode = "local:1"

// nodes keeps a cluster's nodes: those of the configuration and those of the database.
// A node of the configuration is initialized when the database does not know it yet.
// Later its marker has to be there, so that a disk that is not mounted is noticed.
type nodes struct {
	cluster *blobs.Cluster
	service *buckets.NodeService
	cfg     *buckets.Config
	clock   clock.Clock
	log     *slog.Logger
	folder  string // of the node of a server without configured nodes
	create  bool   // nodes may be initialized
	process string // names its temporary files; see processes

	mu      sync.Mutex
	open    map[string]opened               // by ID
	last    map[string]buckets.Node         // that the cluster uses
	failed  map[string]error                // nodes of the configuration that could not be initialized
	changed atomic.Bool                     // since the last refresh
	folders atomic.Pointer[map[string]bool] // IDs of the nodes that are folders

	saying sync.Mutex
	said   map[string]string // errors that were logged, by node
}

type opened struct {
	url    string
	driver blobs.Driver
}

// run keeps the nodes up to date until ctx ends.
func (n *nodes) run(ctx context.Context) {
	for i := 0; ; i++ {
		if i%int(refreshEvery/loadEvery) == 0 || n.changed.Swap(false) {
			n.cluster.Refresh(ctx)
		}
		if !clock.Sleep(ctx, loadEvery) {
			return
		}
		n.reload(ctx)
	}
}

// reload is load for a server, which tries again later.
func (n *nodes) reload(ctx context.Context) {
	err := n.load(ctx)
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelError
	if errcode.Is(err, errcode.Unavailable) { // the database is away, or is being migrated
		level = slog.LevelWarn
	}
	n.say(level, "", "could not read the storage nodes", err)
}

// say logs an error of a node, or of all with "", once as long as it stays the same.
func (n *nodes) say(level slog.Level, node, what string, err error) {
	text := ""
	if err != nil {
		text = what + ": " + err.Error()
	}
	n.saying.Lock()
	defer n.saying.Unlock()
	if n.said[node] == text {
		return
	}
	if n.said == nil {
		n.said = map[string]string{}
	}
	n.said[node] = text
	if err != nil {
		log := n.log
		if node != "" {
			log = log.With("node", node)
		}
		log.Log(context.Background(), level, what, "error", err, "retry_in", loadEvery)
	}
}

// ensure loads the nodes unless they are known: in a command, which does not start the service, and
// in a server that started before its database had tables.
func (n *nodes) ensure(ctx context.Context) error {
	if n.isLoaded() {
		return nil
	}
	return n.load(ctx)
}

// isLoaded reports whether the nodes are known.
func (n *nodes) isLoaded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open != nil
}

// load reads the nodes and opens those that are new.
func (n *nodes) load(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, err := n.service.Nodes(ctx)
	if err != nil {
		return err
	}
	all, failed := map[string]buckets.Node{}, map[string]error{}
	for _, k := range known {
		all[k.ID] = k
	}
	for id, address := range n.configured() {
		node, ok := all[id]
		if !ok {
			node = buckets.Node{ID: id, URL: address, State: buckets.NodeActive, Added: buckets.At(n.clock())}
			err := n.add(ctx, node)
			n.say(slog.LevelError, id, "could not initialize a storage node", err)
			if err != nil {
				failed[id] = err
				continue
			}
		}
		if node.State == buckets.NodeRemoved && len(n.cfg.Nodes) > 0 {
			n.say(slog.LevelWarn, id, "a storage node was removed, but the configuration still has it", errConfigured)
		}
		node.URL = address
		all[id] = node
	}
	maps.DeleteFunc(all, func(_ string, node buckets.Node) bool { return node.State == buckets.NodeRemoved })
	n.failed = failed
	n.cluster.SetPending(len(failed))
	return n.use(all)
}

// check returns an error if no body can be stored, because too few nodes were ever
// initialized, or if none works now. A body has as many copies as copies says; 0 is the
// default. Fewer nodes that work than copies are not an error: most bodies can be read.
func (n *nodes) check(ctx context.Context, copies int) error {
	if err := n.ensure(ctx); err != nil {
		return err
	}
	copies = cmp.Or(copies, n.cluster.Copies())
	n.mu.Lock()
	failed := maps.Clone(n.failed)
	n.mu.Unlock()
	total, active, reason := n.working()
	if total > 0 && active == 0 { // they may work again since the last refresh
		n.cluster.Refresh(ctx)
		total, active, reason = n.working()
	}
	switch {
	case total < copies:
		for _, id := range slices.Sorted(maps.Keys(failed)) {
			return errcode.Newf(errcode.Unavailable, "too few storage nodes for %s of each body, because %s could not be initialized: %s", copiesOf(copies), id, errcode.Message(failed[id]))
		}
		return errcode.Newf(errcode.Unavailable, "too few storage nodes for %s of each body: add one (holdfast buckets nodes add), or lower buckets.copies", copiesOf(copies))
	case active == 0:
		return errcode.Newf(errcode.Unavailable, "no storage node works: %s", reason)
	}
	return nil
}

// working counts the active nodes, and those of them that work, as far as is known. It
// returns why one does not. A node that is full works: its bodies can be read.
func (n *nodes) working() (total, works int, reason string) {
	for _, s := range n.cluster.Nodes() {
		switch {
		case s.State != buckets.NodeActive:
			continue
		case s.Err == nil, errors.Is(s.Err, blobs.ErrNotEnoughSpace):
			works++
		default:
			reason = errcode.Message(s.Err)
		}
		total++
	}
	return total, works, reason
}

var errConfigured = errors.New("remove it from buckets.nodes, or add it again with holdfast buckets nodes add")

// configured returns the URLs of the nodes that are not only in the database.
func (n *nodes) configured() map[string]string {
	if len(n.cfg.Nodes) > 0 {
		all := map[string]string{}
		for id, c := range n.cfg.Nodes {
			all[id] = c.URL
		}
		return all
	}
	folder, err := filepath.Abs(n.folder) // in a URL, the first part of a relative path would be a host
	if err != nil {
		n.log.Error("could not find the folder of bodies", "folder", n.folder, "error", err)
		return nil
	}
	return map[string]string{localNode: (&url.URL{Scheme: "file", Path: folder}).String()}
}

// add initializes a node and adds it to the database.
func (n *nodes) add(ctx context.Context, node buckets.Node) error {
	if !n.create {
		return errcode.New(errcode.Unavailable, "the storage node is new: it is initialized when the server starts")
	}
	return n.initialize(ctx, node)
}

// initialize makes a folder or a bucket a node, and adds it to the database.
func (n *nodes) initialize(ctx context.Context, node buckets.Node) error {
	u, err := url.Parse(node.URL)
	if err != nil {
		return buckets.ErrNodeURL
	}
	if u.Scheme == "file" {
		err = filedriver.Init(u.Path, node.ID)
	} else {
		err = clouddriver.Init(ctx, node.URL, node.ID)
	}
	if err != nil {
		return err
	}
	return n.service.SetNode(ctx, node)
}

// use makes the cluster use the nodes, and closes drivers that are not used any more.
func (n *nodes) use(all map[string]buckets.Node) error {
	var list []blobs.Node
	next := map[string]opened{}
	for id, node := range all {
		o, ok := n.open[id]
		if !ok || o.url != node.URL {
			driver, err := openDriver(node, n.process)
			if err != nil {
				n.say(slog.LevelError, id, "could not open a storage node", err)
				continue
			}
			o = opened{node.URL, driver}
		}
		next[id] = o
		list = append(list, blobs.Node{ID: id, State: node.State, Driver: o.driver})
	}
	folders := map[string]bool{}
	for id, o := range next {
		folders[id] = isFile(o.url)
	}
	n.folders.Store(&folders)
	n.cluster.Set(list...)
	for id, o := range n.open {
		if next[id] != o {
			_ = o.driver.Close() // it is not used any more
		}
	}
	n.open = next
	if !maps.Equal(n.last, all) {
		n.last = all
		n.changed.Store(true)
	}
	return nil
}

func openDriver(node buckets.Node, process string) (blobs.Driver, error) {
	u, err := url.Parse(node.URL)
	if err != nil {
		return nil, buckets.ErrNodeURL
	}
	if u.Scheme == "file" {
		return filedriver.New(u.Path, node.ID).Of(process), nil
	}
	return clouddriver.New(node.URL, node.ID)
}

// isFolder reports whether a node is a folder. It does not wait while the nodes are loaded.
func (n *nodes) isFolder(id string) bool {
	folders := n.folders.Load()
	return folders != nil && (*folders)[id]
}

func (n *nodes) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.use(nil)
}

// scrubbed returns the nodes that are scrubbed: folders, and with cloud also those of cloud
// providers.
func (n *nodes) scrubbed(cloud bool) (ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if u, err := url.Parse(o.url); err == nil && (cloud || u.Scheme == "file") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
