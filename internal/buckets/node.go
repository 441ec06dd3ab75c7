package buckets

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"holdfast/internal/errcode"
)

// Node is a storage node as the database knows it.
type Node struct {
	ID    string // "datacenter:storage_id"
	URL   string // driver and place; see CheckNodeURL
	State NodeState
	Added Moment // when it was first configured or added
}

// NodeState decides whether a node gets and keeps bodies.
type NodeState string

const (
	NodeActive   NodeState = "active"    // gets new bodies
	NodeReadOnly NodeState = "read-only" // gets no new bodies
	NodeDraining NodeState = "draining"  // gets none, and a drain moves the others away
	NodeRemoving NodeState = "removing"  // being removed, if it is empty
	NodeRemoved  NodeState = "removed"   // not used, but possibly still configured
)

// NodeService changes storage nodes. Use a single one per process; it is safe for concurrent use.
type NodeService struct {
	store Nodes

	// removing serializes removals, which could otherwise undo each other's changes.
	removing sync.Mutex
}

func NewNodeService(st Nodes) *NodeService { return &NodeService{store: st} }

// Nodes refuses a node with an invalid ID. IDs become names of folders in backups, and the database may come from a
// backup that somebody else wrote.
func (s *NodeService) Nodes(ctx context.Context) ([]Node, error) {
	all, err := s.store.Nodes(ctx)
	for _, n := range all {
		if CheckNodeID(n.ID) != nil {
			return nil, errcode.New(errcode.Internal, "the database has a storage node with an invalid ID: restore another backup")
		}
	}
	return all, err
}

// SetNode adds or replaces a node.
func (s *NodeService) SetNode(ctx context.Context, n Node) error { return s.store.SetNode(ctx, n) }

// RemoveNode sets an unused node to NodeRemoved. If the node has bodies, it keeps its state and RemoveNode returns
// ErrNodeInUse. Unknown and removed nodes do not change.
func (s *NodeService) RemoveNode(ctx context.Context, id string) error {
	s.removing.Lock()
	defer s.removing.Unlock()
	was, err := s.store.ChangeNode(ctx, id, []NodeState{NodeActive, NodeReadOnly, NodeDraining, NodeRemoving}, NodeRemoving)
	if err != nil || was == "" || was == NodeRemoved {
		return err
	}
	if was == NodeRemoving { // left by a killed process
		was = NodeDraining
	}
	to := NodeRemoved
	used := s.store.CheckUnused(ctx, id)
	if used != nil {
		to = was
	}
	_, err = s.store.ChangeNode(context.WithoutCancel(ctx), id, []NodeState{NodeRemoving}, to) // restores the state unless another process changed it
	return cmp.Or(used, err)
}

// Datacenter returns the first part of a node ID.
func Datacenter(id string) string {
	dc, _, _ := strings.Cut(id, ":")
	return dc
}

// CheckNodeID requires "datacenter:storage_id". Both parts are 1 to 128 characters from a-z, A-Z, 0-9, ".", "_" and
// "-".
func CheckNodeID(id string) error {
	dc, storage, ok := strings.Cut(id, ":")
	if !ok || !isNodeName(dc) || !isNodeName(storage) {
		return ErrNodeID
	}
	return nil
}

// isNodeName allows names that are safe in every driver's paths and object names.
func isNodeName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

var (
	ErrNodeID      = errcode.New(errcode.Invalid, `a storage node is named DATACENTER:NAME, e.g. home:disk1, both from a-z, A-Z, 0-9, ".", "_" and "-"`)
	ErrNodeRemoved = errcode.New(errcode.Unavailable, "a storage node with the body was removed meanwhile; retry")
	ErrNodeInUse   = errcode.New(errcode.Conflict, "the storage node holds bodies: drain it first")
)

// ErrNotEnoughSpace means that no storage node has enough space for a body.
var ErrNotEnoughSpace = errcode.New(errcode.Unavailable, "no storage node has enough free space")

// ErrNodeURL means that no driver supports the URL.
var ErrNodeURL = errcode.New(errcode.Invalid, "a storage node's URL is file:///PATH, s3://BUCKET, gs://BUCKET or azblob://CONTAINER")
