package tokenserver

import (
	"context"
	"sync"
	"time"
)

const (
	maxLearning   = 4                // concurrent sign-ins that learn labels; others do not
	learnTimeout  = 30 * time.Second // for the request and the database
	learnInterval = 24 * time.Hour   // minimum time between requests for an address that is already known
)

// learner learns labels in the background, after the sign-in was answered.
type learner struct {
	slots chan struct{}
	mu    sync.Mutex      // guards starting tasks against StopLearning
	ctx   context.Context //nolint:containedctx // it ends with the service
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// newLearner returns a learner.
func newLearner() *learner {
	l := &learner{slots: make(chan struct{}, maxLearning)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// StopLearning stops learning labels, and waits until running requests to the profile server have ended. SignIn may still
// be called; it learns nothing then.
func (s *Service) StopLearning() {
	s.learner.mu.Lock()
	s.learner.stop()
	s.learner.mu.Unlock()
	s.learner.tasks.Wait()
}

// learnLabel starts to learn a label, unless too many are being learned: the next sign-in tries again.
func (s *Service) learnLabel(a Account, id Identity, token string) {
	c := s.Config()
	if !c.LabelFromProfile || id.Email == "" && (!id.ReadsEmail || c.FxAProfileServerURL == "") {
		return
	}
	s.learner.mu.Lock()
	defer s.learner.mu.Unlock()
	if s.learner.ctx.Err() != nil {
		return
	}
	select {
	case s.learner.slots <- struct{}{}:
	default:
		return
	}
	s.learner.tasks.Go(func() {
		defer func() { <-s.learner.slots }()
		ctx, cancel := context.WithTimeout(s.learner.ctx, learnTimeout)
		defer cancel()
		_ = s.learn(ctx, a, id.Email, token)
	})
}

// learn sets the label to the token's address, or asks for the address. An operator's label stays.
func (s *Service) learn(ctx context.Context, a Account, email, token string) error {
	labels, err := s.store.LabelsOf(ctx, []string{a.FxAUID})
	if err != nil {
		return err
	}
	known, labelled := labels[a.FxAUID]
	now := s.now()
	if labelled && (!known.FromProfile || email == known.Text || email == "" && known.SetAt > millis(now.Add(-learnInterval))) {
		return nil
	}
	if email == "" {
		if email, err = s.verifier.Email(ctx, token); err != nil {
			return err
		}
	}
	_, err = s.store.SetLabel(ctx, a, Label{FxAUID: a.FxAUID, Text: email, FromProfile: true, SetAt: millis(now)})
	return err
}
