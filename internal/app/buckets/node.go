package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// showAuditLink links to the audits, above the nodes.
func showAuditLink(context.Context, *service.PageRequest) (*service.View, error) {
	return &service.View{Blocks: []service.Block{&service.Links{All: []service.Link{{Text: "Audit and repair copies", To: "audits"}}}}}, nil
}

// nodeOperations declares the storage nodes. A node is removed only by a drain.
func (s *Buckets) nodeOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "nodes", Doc: "List the storage nodes with their state and free space", Title: "Storage nodes", Empty: "There are no storage nodes.",
			Group: "Manage the storage nodes, which hold object bodies",
		}, on(s, s.listNodes)),
		operate.NewChange(operate.About{
			Path: "nodes/add", Doc: "Add a storage node, or use it again after a drain", NewRow: true, Title: "Add a storage node", Button: "Add storage node",
			Text: "A node is an empty folder or an empty cloud bucket. Adding an existing node activates it again and ends its drain.",
			More: "A storage node is an empty folder or an empty cloud bucket. A marker with the node's name is written to\n" +
				"it, so that no other disk is mistaken for it. Running servers use it within seconds.\n\n" +
				"Adding an existing node activates it again and ends its drain. Its URL may change if the node moved there\n" +
				"with its marker. If the node is in the configuration, change its URL there.",
			Example: "home:disk2 file:///mnt/disk2/holdfast\ncloud:backup gs://my-bucket",
		}, on(s, s.addNode)),
		s.drainOperation(),
	}
}

// settleTime is how long a command waits for background work before it ends.
const settleTime = 10 * time.Second

// withNodes calls fn with open nodes. A server's nodes are open already; a command opens them, waits for background
// work at the end, and closes them.
func (s *Buckets) withNodes(ctx context.Context, fn func(context.Context) error) (err error) {
	if s.serves.Load() {
		return fn(ctx)
	}
	// In a command, the audit or the drain reports damages itself.
	s.cluster.Report = nil
	if err := s.nodes.load(ctx); err != nil {
		return err
	}
	defer func() {
		settled, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		_ = s.cluster.Wait(settled) // fails if a node hangs
		_ = s.cluster.Close(settled)
		err = errors.Join(err, s.nodes.close())
	}()
	s.cluster.Refresh(ctx)
	return fn(ctx)
}

// knownNode returns a node that is not removed, with the URL that is in use.
func (s *Buckets) knownNode(ctx context.Context, id string) (n buckets.Node, ok bool, err error) {
	all, err := s.nodes.service.Nodes(ctx)
	i := slices.IndexFunc(all, func(n buckets.Node) bool { return n.ID == id && n.State != buckets.NodeRemoved })
	if i < 0 {
		return n, false, err
	}
	n = all[i]
	n.URL = cmp.Or(s.nodes.configured()[id], n.URL)
	return n, true, nil
}

// newNodeInput names a node. Its name is written to the node, and never changes.
type newNodeInput struct {
	Node string `subject:"node" doc:"node name: DATACENTER:NAME"`
	URL  string `flag:"url" arg:"URL" doc:"file:///PATH, s3://BUCKET, gs://BUCKET or azblob://CONTAINER; optional for an existing node"`
}

// Check checks the name's and the URL's form without reading the node.
func (in newNodeInput) Check() error {
	if in.URL == "" {
		return buckets.CheckNodeID(in.Node)
	}
	return errors.Join(buckets.CheckNodeID(in.Node), buckets.CheckNodeURL(in.URL))
}

// nodeChange is the added node.
type nodeChange struct {
	Node string `json:"node" subject:"node" example:"home:disk2"`
}

func (c nodeChange) Notice() string {
	return fmt.Sprintf("storage node %s is active; running servers use it within %s", c.Node, loadEvery)
}

// addNode initializes a new node, or activates a node that is draining. For another URL, the node's marker must be
// there.
func (s *Buckets) addNode(ctx context.Context, in newNodeInput) (c nodeChange, err error) {
	old, exists, err := s.knownNode(ctx, in.Node)
	if err != nil {
		return c, err
	}
	n := buckets.Node{ID: in.Node, URL: cmp.Or(in.URL, old.URL), State: buckets.NodeActive, Added: buckets.At(s.deps.Clock())}
	if n.URL == "" {
		return c, &operate.InputError{Input: "url", Reason: "must not be empty for a new node"}
	}
	if address, ok := s.nodes.configured()[n.ID]; ok && address != n.URL {
		return c, errcode.Newf(errcode.Conflict, "storage node %s is %s in the configuration: change its URL there", n.ID, address)
	}
	switch {
	case !exists:
		return nodeChange{n.ID}, s.nodes.initialize(ctx, n)
	case old.URL != n.URL:
		if err := s.isNode(ctx, n); err != nil {
			return c, err
		}
	}
	n.Added = old.Added
	return nodeChange{n.ID}, s.nodes.service.SetNode(ctx, n)
}

// isNode returns an error unless n.URL already has the node's bodies.
func (s *Buckets) isNode(ctx context.Context, n buckets.Node) error {
	d, err := s.nodes.openDriver(n, "")
	if err != nil {
		return err
	}
	_, err = d.Space(ctx)
	return errors.Join(err, d.Close())
}

// nodesInput selects whether bodies are counted.
type nodesInput struct {
	Bodies bool `flag:"bodies" doc:"count the bodies on each node (reads all metadata)"`
}

// nodeState is a buckets.NodeState, or "new" for a configured node that is not initialized.
type nodeState string

// shownState colors the state by the problem.
type shownState struct {
	state   nodeState
	problem nodeProblem
}

func (s shownState) String() string { return string(s.state) }

func (s shownState) Cell() service.Cell {
	c := service.Cell{State: service.Warning, Text: s.String()}
	switch {
	case s.problem != "":
		c.State = service.Wrong
	case s.state == nodeState(buckets.NodeActive):
		c.State = service.OK
	}
	return c
}

// nodeProblem is why a node does not work, or "".
type nodeProblem string

func (p nodeProblem) Cell() service.Cell {
	if p == "" {
		return service.TextCell("-")
	}
	return service.Cell{State: service.Wrong, Text: string(p)}
}

// nodeOutput is a storage node. Sizes are missing until they are known, and for cloud buckets, which have no limit.
type nodeOutput struct {
	ID       string         `json:"id" title:"Node" subject:"node" example:"home:disk1"`
	State    nodeState      `json:"state" enum:"new,active,read-only,draining,removing,removed"`
	Shown    shownState     `json:"-" title:"State"`
	Free     *service.Bytes `json:"free_bytes,omitempty" title:"Free" zero:"-" doc:"missing: unknown or unlimited"`
	Size     *service.Bytes `json:"size_bytes,omitempty" title:"Size" zero:"-"`
	Used     *service.Bytes `json:"-" title:"Used" zero:"-" of:"Size"`
	Bodies   *int64         `json:"bodies,omitempty" title:"Bodies" with:"bodies" doc:"with bodies: on this node"`
	Bytes    *service.Bytes `json:"bytes,omitempty" title:"Bytes" with:"bodies" doc:"with bodies: bytes used by the bodies on this node"`
	URL      string         `json:"url" title:"URL" example:"file:///srv/disk1/holdfast"`
	Scrub    scrubPass      `json:"-" title:"Scrubber pass" zero:"-"`
	Scrubbed time.Time      `json:"-" title:"Last complete pass"`
	Problem  nodeProblem    `json:"problem,omitempty" title:"Problem"`
}

// scrubPass is the scrubber's progress in a pass over a node.
type scrubPass struct {
	isComplete   bool
	bytes, total int64
}

// String returns exact bytes.
func (p scrubPass) String() string {
	if p.isComplete {
		return "complete"
	}
	return fmt.Sprintf("%d of %d bytes", p.bytes, p.total)
}

// Rounded is for pages and terminals.
func (p scrubPass) Rounded() string {
	if p.isComplete {
		return p.String()
	}
	return service.FormatBytes(p.bytes) + " of " + service.FormatBytes(p.total)
}

// Offers no change for a node that is new or removed.
func (n nodeOutput) Offers(string) bool {
	return n.State != "new" && n.State != nodeState(buckets.NodeRemoved)
}

// listNodes asks each node for its space. A node that does not answer is listed with its problem.
func (s *Buckets) listNodes(ctx context.Context, in nodesInput) (all []nodeOutput, err error) {
	err = s.withNodes(ctx, func(ctx context.Context) error {
		if all, err = s.nodeList(ctx); err != nil {
			return err
		}
		if err := s.addScrubs(ctx, all); err != nil || !in.Bodies {
			return err
		}
		return s.countBodies(ctx, all)
	})
	return all, err
}

// nodeList joins three sources: the database, the configuration, and the nodes themselves. A removed node is listed
// only while the configuration still contains it.
func (s *Buckets) nodeList(ctx context.Context) (all []nodeOutput, err error) {
	known, err := s.nodes.service.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	configured := s.nodes.configured()
	for _, n := range known {
		if _, ok := configured[n.ID]; n.State == buckets.NodeRemoved && (!ok || len(s.cfg.Nodes) == 0) {
			continue
		}
		all = append(all, nodeOutput{ID: n.ID, State: nodeState(n.State), URL: cmp.Or(configured[n.ID], n.URL)})
		delete(configured, n.ID)
	}
	for id, address := range configured {
		if !slices.ContainsFunc(known, func(n buckets.Node) bool { return n.ID == id }) {
			all = append(all, nodeOutput{ID: id, State: "new", URL: address, Problem: "it is initialized when the server starts"})
		}
	}
	slices.SortFunc(all, func(a, b nodeOutput) int { return strings.Compare(a.ID, b.ID) })
	for _, now := range s.cluster.Nodes() {
		i := slices.IndexFunc(all, func(n nodeOutput) bool { return n.ID == now.ID })
		if i < 0 {
			continue
		}
		if now.HasSpace && now.Space.Free >= 0 {
			free, total, used := service.Bytes(now.Space.Free), service.Bytes(now.Space.Total), service.Bytes(now.Space.Total-now.Space.Free)
			all[i].Free, all[i].Size, all[i].Used = &free, &total, &used
		}
		if now.Space.ReadOnly {
			all[i].Problem = "it is read-only"
		}
		if now.Err != nil {
			all[i].Problem = nodeProblem(errcode.Message(now.Err))
		}
	}
	for i := range all {
		all[i].Shown = shownState{all[i].State, all[i].Problem}
	}
	return all, nil
}

// addScrubs adds the scrubber's progress.
func (s *Buckets) addScrubs(ctx context.Context, all []nodeOutput) error {
	h, err := s.maintenance.Health(ctx)
	for _, p := range h.Scrubs {
		i := slices.IndexFunc(all, func(n nodeOutput) bool { return n.ID == p.Node })
		if i < 0 {
			continue
		}
		all[i].Scrub, all[i].Scrubbed = scrubPass{isComplete: true}, service.TimeOf(p.Ended)
		if !p.Done {
			all[i].Scrub = scrubPass{bytes: p.Bytes, total: p.Total}
		}
	}
	return err
}

// countBodies reads all object and part rows.
func (s *Buckets) countBodies(ctx context.Context, all []nodeOutput) error {
	nodes, err := s.maintenance.CountBodies(ctx)
	for i := range all {
		stored := nodes[all[i].ID]
		bytes := service.Bytes(stored.Bytes)
		all[i].Bodies, all[i].Bytes = &stored.Bodies, &bytes
	}
	return err
}
