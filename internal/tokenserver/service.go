package tokenserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// Claims are the contents of a storage token.
type Claims struct {
	UID            int64
	FxAUID         string
	FxAKID         string // KeyID.String
	Node           string // URL of the storage node
	Expires        time.Time
	HashedFxAUID   string
	HashedDeviceID string
	Cleanup        bool // for the Purger; valid even if revoked
}

// Minter issues storage tokens, signed with a secret that the nodes know. It is safe for concurrent use.
type Minter interface {
	// Mint returns the token (Hawk ID) and the key for signing requests.
	Mint(c Claims) (token, key string, err error)
}

// ErrElapsed means that the database exceeded database_request_timeout.
var ErrElapsed error = errcode.New(errcode.Unavailable, "the database took too long")

// Options configures a Service. Local, Inherit and CountEvent may be nil. The functions may be called concurrently.
type Options struct {
	Config   Config
	Store    Store
	Verifier Verifier
	Minter   Minter
	Clock    clock.Clock

	// PublicURL has no trailing slash. If it is "", each request's own URL is used.
	PublicURL string

	// Local, if set, deletes data on this server, and Remote on other nodes.
	Local, Remote Purger

	// Inherit copies an earlier storage user's quota to a new user. from lists the earlier users, newest first. It is called
	// at each sign-in while an earlier user is kept, before the token is issued, so it must be idempotent; its error fails
	// the sign-in.
	Inherit func(ctx context.Context, from []User, to *User) error

	// CountEvent is called for each account event, before it is applied.
	CountEvent func(EventKind)
}

// Service signs accounts in and assigns storage. It is safe for concurrent use.
type Service struct {
	conf          atomic.Pointer[Config]
	store         Store
	verifier      Verifier
	minter        Minter
	now           clock.Clock
	publicURL     string
	local, remote Purger
	inherit       func(ctx context.Context, from []User, to *User) error
	countEvent    func(EventKind)
	learner       *learner
}

// NewService returns errcode.Invalid if the hash secret is missing. It checks no other option: a missing one panics when it
// is used.
func NewService(o Options) (*Service, error) {
	if o.Config.FxAMetricsHashSecret == "" {
		return nil, errcode.New(errcode.Invalid, "fxa_metrics_hash_secret must not be empty")
	}
	if o.CountEvent == nil {
		o.CountEvent = func(EventKind) {}
	}
	s := &Service{
		store: o.Store, verifier: o.Verifier, minter: o.Minter, now: o.Clock,
		publicURL: o.PublicURL, local: o.Local, remote: o.Remote, inherit: o.Inherit, countEvent: o.CountEvent,
		learner: newLearner(),
	}
	s.Reload(o.Config)
	return s, nil
}

// Config returns the current settings; do not modify them.
func (s *Service) Config() *Config { return s.conf.Load() }

// Reload changes the settings for later requests.
func (s *Service) Reload(c Config) { s.conf.Store(&c) }

// EnsureNode adds init_node_url as a node if it does not exist, and returns it. Without init_node_url it adds this
// server, but only once in the lifetime of the tables.
func (s *Service) EnsureNode(ctx context.Context) (string, error) {
	ensure, address := s.store.EnsureFirstNode, s.publicURL
	if s.Config().InitNodeURL != "" {
		ensure, address = s.store.EnsureNode, s.Config().InitNodeURL
	}
	if address == "" || len(address) > maxNodeURL && s.Config().InitNodeURL == "" {
		address = Self
	}
	address, err := CheckNodeURL(address)
	if err != nil {
		return "", err
	}
	capacity := s.Config().InitNodeCapacity
	added, err := ensure(ctx, Node{URL: address, Available: capacity, Capacity: capacity})
	if err != nil || !added {
		return "", err
	}
	return address, nil
}

// Request is a sign-in with a verified access token.
type Request struct {
	Identity Identity
	Token    string // the access token, to learn a label
	Keys     KeyID
	Duration string // requested seconds; anything but a number up to token_duration means token_duration
	Origin   string // URL of this server, as the client sees it, without a trailing slash
}

// Grant is the answer to a sign-in.
type Grant struct {
	Token        string // Hawk ID
	Key          string // Hawk key
	UID          int64
	Endpoint     string // URL of the user's storage
	Duration     time.Duration
	HashedFxAUID string
	NodeType     string
}

// AccessToken verifies a token. See Verifier.
func (s *Service) AccessToken(ctx context.Context, token string) (Identity, error) {
	return s.verifier.AccessToken(ctx, token)
}

// SignIn issues a storage token. It returns *Refusal, ErrNoNode or ErrElapsed.
func (s *Service) SignIn(ctx context.Context, r Request) (Grant, error) {
	now := s.now()
	a := Account{r.Identity.FxAUID, s.Config().FxAEmailDomain}
	if err := a.Check(); err != nil {
		return Grant{}, &Refusal{Reason: BadCredentials, Cause: err}
	}
	u, err := s.signIn(ctx, a, SignIn{
		Generation:  r.Identity.Generation,
		Keys:        r.Keys,
		Now:         now,
		AllowNew:    s.Config().AllowNewUsers,
		ReleaseRate: s.Config().NodeCapacityReleaseRate,
		SpannerNode: s.Config().SpannerNodeID,
	})
	if errors.Is(err, &Refusal{Reason: NotAdmitted}) {
		s.learnLabel(a, r.Identity, r.Token) // so that the operator knows who was refused
	}
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
	uid, device := hashedIDs(s.Config().FxAMetricsHashSecret, a.FxAUID)
	duration := s.duration(r.Duration)
	token, key, err := s.minter.Mint(Claims{
		UID: u.UID, FxAUID: a.FxAUID, FxAKID: u.KeyID().String(), Node: node,
		Expires: now.Add(duration), HashedFxAUID: uid, HashedDeviceID: device,
	})
	if err != nil {
		return Grant{}, fmt.Errorf("mint a token for user %d: %w", u.UID, err)
	}
	s.learnLabel(a, r.Identity, r.Token)
	return Grant{
		Token: token, Key: key, UID: u.UID,
		Endpoint: node + "/1.5/" + strconv.FormatInt(u.UID, 10),
		Duration: duration, HashedFxAUID: uid, NodeType: s.Config().NodeType,
	}, nil
}

// signIn limits the time in the database, and reports ErrElapsed if that was too short.
func (s *Service) signIn(ctx context.Context, a Account, in SignIn) (User, error) {
	if s.Config().DatabaseRequestTimeout <= 0 {
		return s.store.SignIn(ctx, a, in)
	}
	limited, cancel := context.WithTimeout(ctx, s.Config().DatabaseRequestTimeout)
	defer cancel()
	u, err := s.store.SignIn(limited, a, in)
	if err != nil && errors.Is(limited.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return User{}, fmt.Errorf("%w: %w", ErrElapsed, err)
	}
	return u, err
}

// duration returns the requested lifetime, at most the setting. Anything that is not a number means the setting.
func (s *Service) duration(asked string) time.Duration {
	longest := s.Config().TokenDuration.Truncate(time.Second)
	n, err := strconv.ParseUint(asked, 10, 64)
	if err != nil || n > uint64(longest/time.Second) {
		return longest
	}
	return time.Duration(n) * time.Second
}

// AcceptsEvents reports whether account events are configured.
func (s *Service) AcceptsEvents() bool { return s.Config().FxAWebhookEnabled }

// Events verifies account events. See Verifier.
func (s *Service) Events(ctx context.Context, token string) ([]Event, error) {
	return s.verifier.Events(ctx, token)
}

// HandleEvents applies events in order, and stops at the first error, after which the accounts server sends all again.
// Events are idempotent.
func (s *Service) HandleEvents(ctx context.Context, events []Event) error {
	for _, e := range events {
		s.countEvent(e.Kind)
		if s.Config().FxAWebhookMetricsOnly {
			continue
		}
		if err := s.take(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// take applies an event. Other kinds have no effect.
func (s *Service) take(ctx context.Context, e Event) (err error) {
	a := Account{e.FxAUID, s.Config().FxAEmailDomain}
	switch e.Kind {
	case AccountDeleted:
		_, err = s.store.Replace(ctx, a, s.now(), true)
	case PasswordChanged:
		_, err = s.store.ChangePassword(ctx, a, e.generation(s.now()))
	}
	return err
}
