package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
)

// Claims is what a storage token says.
type Claims struct {
	UID            int64
	FxAUID         string
	FxAKID         string // KeyID.String
	Node           string // URL
	Expires        time.Time
	HashedFxAUID   string
	HashedDeviceID string
	Cleanup        bool // for the Purger alone: good also when the user's tokens are revoked
}

// Minter makes storage tokens, signed with a secret that the nodes know.
type Minter interface {
	Mint(c Claims) (token, key string, err error)
}

// ErrElapsed is the answer when the database took longer than the setting
// database_request_timeout.
var ErrElapsed error = fault.New(fault.Unavailable, "the database took too long")

// Options is what a Service is made of. Local and CountEvent may be nil.
type Options struct {
	Config   Config
	Store    Store
	Verifier Verifier
	Minter   Minter
	Clock    clock.Clock

	// PublicURL is this server's own address without a slash at its end, ""
	// when it is whatever a request was sent to.
	PublicURL string

	// Local deletes on this server's own storage, nil when it has none; Remote
	// on the node of the row.
	Local, Remote Purger

	// Inherit gives a new storage user of this server the quota of its own that the
	// account had before, as one of the others, the newest first. nil: there are none.
	Inherit func(ctx context.Context, from []User, to *User) error

	// CountEvent is told of every account event, acted upon or not.
	CountEvent func(EventKind)
}

// Service is the service's use cases.
type Service struct {
	conf          Config
	store         Store
	verifier      Verifier
	minter        Minter
	now           clock.Clock
	publicURL     string
	local, remote Purger
	inherit       func(ctx context.Context, from []User, to *User) error
	countEvent    func(EventKind)
}

// NewService checks that nothing is missing which would show only later.
func NewService(o Options) (*Service, error) {
	if o.Config.FxAMetricsHashSecret == "" {
		return nil, fault.New(fault.Invalid, "fxa_metrics_hash_secret must not be empty")
	}
	if o.CountEvent == nil {
		o.CountEvent = func(EventKind) {}
	}
	return &Service{
		conf: o.Config, store: o.Store, verifier: o.Verifier, minter: o.Minter, now: o.Clock,
		publicURL: o.PublicURL, local: o.Local, remote: o.Remote, inherit: o.Inherit, countEvent: o.CountEvent,
	}, nil
}

// EnsureNode sees to it that new accounts find a node: the one of the setting
// init_node_url, unless it is there, or else this server, once in the life of
// the tables. It returns the node's URL when it was added, else "".
func (s *Service) EnsureNode(ctx context.Context) (string, error) {
	ensure, address := s.store.EnsureFirstNode, s.publicURL
	if s.conf.InitNodeURL != "" {
		ensure, address = s.store.EnsureNode, s.conf.InitNodeURL
	}
	if address == "" || len(address) > maxNodeURL && s.conf.InitNodeURL == "" {
		address = Self // which is where the public URL leads as well
	}
	address, err := CheckNodeURL(address)
	if err != nil {
		return "", err
	}
	capacity := s.conf.InitNodeCapacity
	added, err := ensure(ctx, Node{URL: address, Available: capacity, Capacity: capacity})
	if err != nil || !added {
		return "", err
	}
	return address, nil
}

// Request is a sign-in as HTTP brings it, its access token already verified.
type Request struct {
	Identity Identity
	Keys     KeyID
	Duration string // the query argument, "" when there is none
	Origin   string // the URL under which the client reached this server
}

// Grant is the answer to a sign-in.
type Grant struct {
	Token, Key   string
	UID          int64
	Endpoint     string // of the user's storage
	Duration     time.Duration
	HashedFxAUID string
	NodeType     string
}

// AccessToken verifies the token that a sign-in presents. *Refusal.
func (s *Service) AccessToken(ctx context.Context, token string) (Identity, error) {
	return s.verifier.AccessToken(ctx, token)
}

// SignIn gives an account a token for its storage. *Refusal, ErrNoNode,
// ErrElapsed.
func (s *Service) SignIn(ctx context.Context, r Request) (Grant, error) {
	now := s.now()
	a := Account{r.Identity.FxAUID, s.conf.FxAEmailDomain}
	if err := a.Check(); err != nil {
		return Grant{}, &Refusal{Reason: BadCredentials, Cause: err}
	}
	u, err := s.signIn(ctx, a, SignIn{
		Generation:  r.Identity.Generation,
		Keys:        r.Keys,
		Now:         now,
		AllowNew:    s.conf.AllowNewUsers,
		ReleaseRate: s.conf.NodeCapacityReleaseRate,
		SpannerNode: s.conf.SpannerNodeID,
	})
	if err != nil {
		return Grant{}, err
	}
	if err := s.inheritQuota(ctx, a, &u, now); err != nil {
		return Grant{}, err
	}
	node := u.Node
	if node == Self {
		node = r.Origin
	}
	uid, device := hashedIDs(s.conf.FxAMetricsHashSecret, a.FxAUID)
	duration := s.duration(r.Duration)
	token, key, err := s.minter.Mint(Claims{
		UID: u.UID, FxAUID: a.FxAUID, FxAKID: u.KeyID().String(), Node: node,
		Expires: now.Add(duration), HashedFxAUID: uid, HashedDeviceID: device,
	})
	if err != nil {
		return Grant{}, fmt.Errorf("mint a token for user %d: %w", u.UID, err)
	}
	return Grant{
		Token: token, Key: key, UID: u.UID,
		Endpoint: node + "/1.5/" + strconv.FormatInt(u.UID, 10),
		Duration: duration, HashedFxAUID: uid, NodeType: s.conf.NodeType,
	}, nil
}

// signIn is the Store's within the time that the setting allows.
func (s *Service) signIn(ctx context.Context, a Account, in SignIn) (User, error) {
	if s.conf.DatabaseRequestTimeout <= 0 {
		return s.store.SignIn(ctx, a, in)
	}
	limited, cancel := context.WithTimeout(ctx, s.conf.DatabaseRequestTimeout)
	defer cancel()
	u, err := s.store.SignIn(limited, a, in)
	if err != nil && errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return User{}, fmt.Errorf("%w: %w", ErrElapsed, err)
	}
	return u, err
}

// duration is what the client asked for, if it is no more than what the server
// gives; anything else means the server's.
func (s *Service) duration(asked string) time.Duration {
	most := s.conf.TokenDuration.Truncate(time.Second)
	n, err := strconv.ParseUint(asked, 10, 64)
	if err != nil || n > uint64(most/time.Second) {
		return most
	}
	return time.Duration(n) * time.Second
}

// TakesEvents reports whether the accounts server may report events here: the
// setting fxa_webhook_enabled.
func (s *Service) TakesEvents() bool { return s.conf.FxAWebhookEnabled }

// TakeEvents acts on a security event token of the accounts server. The error
// is a *Refusal when it is not one for us.
func (s *Service) TakeEvents(ctx context.Context, token string) error {
	events, err := s.verifier.Events(ctx, token)
	if err != nil {
		return err
	}
	for _, e := range events {
		s.countEvent(e.Kind)
		if s.conf.FxAWebhookMetricsOnly {
			continue
		}
		if err := s.take(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) take(ctx context.Context, e Event) (err error) {
	a := Account{e.FxAUID, s.conf.FxAEmailDomain}
	switch e.Kind {
	case AccountDeleted:
		_, err = s.store.Replace(ctx, a, s.now(), true)
	case PasswordChanged:
		_, err = s.store.ChangePassword(ctx, a, e.generation(s.now()))
	}
	return err
}
