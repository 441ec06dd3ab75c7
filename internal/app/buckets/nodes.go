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
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

const (
	// loadEvery is how often servers read the nodes from the database, and refreshEvery how often they read free space.
	loadEvery    = 2 * time.Second
	refreshEvery = 10 * time.Second
)

// localNode is the node in the data folder, which is used if none is configured.
const localNode = "local:1"

// nodes updates the cluster's nodes from the configuration and the database. It initializes a configured node that is
// not in the database. After that the node's marker must exist, so that an unmounted disk is detected.
type nodes struct {
	clouds  blobs.Clouds
	cluster *blobs.Cluster
	service *buckets.NodeService
	cfg     *buckets.Config
	clock   clock.Clock
	log     *slog.Logger
	// folder is the local node's, in the data folder.
	folder string
	// create allows initializing configured nodes: in servers, but not in commands that only read.
	create  bool
	process string // part of the names of temporary files; see processes

	mu sync.Mutex
	// open has the nodes in use by ID; nil before the first load. mu guards it and the next fields.
	open map[string]openNode
	// last are the nodes that the cluster got last; changed asks run for a refresh.
	last    map[string]buckets.Node
	failed  map[string]error // configured nodes that were not initialized
	changed atomic.Bool
	// folders says for each node in use whether it is a folder; isFolder reads it without the lock.
	folders atomic.Pointer[map[string]bool]

	saying sync.Mutex
	// said is the last message for each node, "" for all nodes together.
	said map[string]string
}

// openNode is a node in use, with its URL, which may change.
type openNode struct {
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

// reload is load for background work: it logs an error once.
func (n *nodes) reload(ctx context.Context) {
	err := n.load(ctx)
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelError
	if errcode.Is(err, errcode.Unavailable) { // the database is down or migrating
		level = slog.LevelWarn
	}
	n.say(level, "", "could not read the storage nodes", err)
}

// say logs a node's error only when it changes.
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

// ensure loads the nodes unless they are already loaded: in commands, and in a server that started before its database
// was migrated.
func (n *nodes) ensure(ctx context.Context) error {
	if n.isLoaded() {
		return nil
	}
	return n.load(ctx)
}

// isLoaded reports whether load has succeeded, even without any node.
func (n *nodes) isLoaded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open != nil
}

// load reads the nodes and opens those that are new. A configured node that cannot be initialized is no error: it is
// reported, and tried again.
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
			n.say(slog.LevelWarn, id, "a removed storage node is still in the configuration", errConfigured)
		}
		node.URL = address
		all[id] = node
	}
	maps.DeleteFunc(all, func(_ string, node buckets.Node) bool { return node.State == buckets.NodeRemoved })
	n.failed = failed
	n.cluster.SetPending(len(failed))
	return n.use(all)
}

// check returns an error if no node works, or if fewer nodes than copies were ever initialized (0: the default number
// of copies). Fewer working nodes are no error, because most bodies can still be read.
func (n *nodes) check(ctx context.Context, copies int) error {
	if err := n.ensure(ctx); err != nil {
		return err
	}
	copies = cmp.Or(copies, n.cluster.Copies())
	n.mu.Lock()
	failed := maps.Clone(n.failed)
	n.mu.Unlock()
	total, active, reason := n.working()
	if total > 0 && active == 0 { // nodes may work again since the last refresh
		n.cluster.Refresh(ctx)
		total, active, reason = n.working()
	}
	switch {
	case total < copies:
		for _, id := range slices.Sorted(maps.Keys(failed)) {
			return errcode.Newf(errcode.Unavailable, "too few storage nodes for %s per body, because %s could not be initialized: %s", copiesOf(copies), id, errcode.Message(failed[id]))
		}
		return errcode.Newf(errcode.Unavailable, "too few storage nodes for %s per body: add a node (holdfast buckets nodes add), or lower buckets.copies", copiesOf(copies))
	case active == 0:
		return errcode.Newf(errcode.Unavailable, "no storage node works: %s", reason)
	}
	return nil
}

// working counts a full node as working, because its bodies can be read. reason explains why a node does not work.
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

// errConfigured is the remedy for a removed node that is still configured.
var errConfigured = errors.New("remove it from buckets.nodes, or add it again with holdfast buckets nodes add")

// configured returns the configured nodes' URLs by ID, or the local node's if none is configured.
func (n *nodes) configured() map[string]string {
	if len(n.cfg.Nodes) > 0 {
		all := map[string]string{}
		for id, c := range n.cfg.Nodes {
			all[id] = c.URL
		}
		return all
	}
	folder, err := filepath.Abs(n.folder) // the URL of a relative path would start with a host
	if err != nil {
		n.log.Error("could not find the bodies folder", "folder", n.folder, "error", err)
		return nil
	}
	return map[string]string{localNode: (&url.URL{Scheme: "file", Path: folder}).String()}
}

// add initializes a node only if this process may create files.
func (n *nodes) add(ctx context.Context, node buckets.Node) error {
	if !n.create {
		return errcode.New(errcode.Unavailable, "the storage node is new: it is initialized when the server starts")
	}
	return n.initialize(ctx, node)
}

// initialize writes the marker first: a node in the database without a marker would count as not mounted.
func (n *nodes) initialize(ctx context.Context, node buckets.Node) error {
	u, err := url.Parse(node.URL)
	if err != nil {
		return buckets.ErrNodeURL
	}
	switch {
	case u.Scheme == "file":
		err = filedriver.Init(u.Path, node.ID)
	case n.clouds.Init == nil:
		err = errNoClouds
	default:
		err = n.clouds.Init(ctx, node.URL, node.ID)
	}
	if err != nil {
		return err
	}
	return n.service.SetNode(ctx, node)
}

// use opens drivers for new nodes and new URLs, gives the nodes to the cluster, and closes the drivers that are no
// longer used. A node that cannot be opened is left out. The caller holds mu.
func (n *nodes) use(all map[string]buckets.Node) error {
	var list []blobs.Node
	next := map[string]openNode{}
	for id, node := range all {
		o, ok := n.open[id]
		if !ok || o.url != node.URL {
			driver, err := n.openDriver(node, n.process)
			if err != nil {
				n.say(slog.LevelError, id, "could not open a storage node", err)
				continue
			}
			o = openNode{node.URL, driver}
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
			_ = o.driver.Close()
		}
	}
	n.open = next
	if !maps.Equal(n.last, all) {
		n.last = all
		n.changed.Store(true)
	}
	return nil
}

var errNoClouds = errcode.New(errcode.Invalid, "this program opens storage nodes in folders only")

// openDriver does not read the node. Temporary files are marked with this process; see processes.
func (n *nodes) openDriver(node buckets.Node, process string) (blobs.Driver, error) {
	u, err := url.Parse(node.URL)
	if err != nil {
		return nil, buckets.ErrNodeURL
	}
	switch {
	case u.Scheme == "file":
		return filedriver.New(u.Path, node.ID).Of(process), nil
	case n.clouds.Open == nil:
		return nil, errNoClouds
	}
	return n.clouds.Open(node.URL, node.ID)
}

// isFolder reports whether a node is a folder. It does not wait for load.
func (n *nodes) isFolder(id string) bool {
	folders := n.folders.Load()
	return folders != nil && (*folders)[id]
}

// close closes all drivers. The nodes count as loaded, and the list is empty.
func (n *nodes) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.use(nil)
}

// scrubbed returns the IDs of the nodes in use. It leaves out cloud nodes unless cloud is set, because reading them
// costs money.
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
