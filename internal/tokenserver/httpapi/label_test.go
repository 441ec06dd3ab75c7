package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/internal/tokenserver"
)

type labelling struct {
	tokenserver.Store
	read chan struct{}
	set  chan tokenserver.Label
}

func newLabelling() *labelling {
	return &labelling{read: make(chan struct{}, 9), set: make(chan tokenserver.Label, 9)}
}

func (l *labelling) LabelsOf(ctx context.Context, ids []string) (map[string]tokenserver.Label, error) {
	labels, err := l.Store.LabelsOf(ctx, ids)
	l.read <- struct{}{}
	return labels, err
}

func (l *labelling) SetLabel(ctx context.Context, a tokenserver.Account, label tokenserver.Label) (bool, error) {
	done, err := l.Store.SetLabel(ctx, a, label)
	if err != nil || !done {
		label.Text = "refused"
	}
	l.set <- label
	return done, err
}

// signInAs signs in with a verification that contains more members.
func (s *server) signInAs(t *testing.T, account, scope, more string) {
	t.Helper()
	token, err := json.Marshal(map[string]any{"user": account, "scope": []string{tokenserver.Scope, scope}, "generation": 7})
	must(t, err)
	r := s.do(t, http.MethodGet, "/1.0/sync/1.5", "Authorization", "Bearer "+string(token[:len(token)-1])+more+"}", "X-KeyID", "5-qqo")
	if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[s.service.Config().AllowNewUsers]; r.status != want {
		t.Fatalf("%d %s", r.status, r.body)
	}
}

func (l *labelling) want(t *testing.T, text string) {
	t.Helper()
	if got := <-l.set; got.Text != text || !got.FromProfile {
		t.Errorf("labelled %+v, want %s", got, text)
	}
	<-l.read
}

// TestLabelOfSignIn checks that a sign-in labels its account with the verified address, unless the operator labelled
// it.
func TestLabelOfSignIn(t *testing.T) {
	t.Parallel()
	l := newLabelling()
	s := newServer(t, func(o *tokenserver.Options) {
		l.Store, o.Store = o.Store, l
		o.Config.LabelFromProfile = true
	})
	t.Cleanup(s.service.StopLearning)
	s.signInAs(t, "anna", "x", `,"email":"anna@example.org"`)
	l.want(t, "anna@example.org")
	s.signInAs(t, "anna", "x", `,"email":"anna@example.com"`)
	l.want(t, "anna@example.com")
	s.signInAs(t, "anna", "x", `,"email":"anna@example.com"`)
	<-l.read // already known
	s.signInAs(t, "anna", "x", `,"email":"anna\u202e"`)
	l.want(t, "refused")

	account, err := s.service.ParseAccount("anna")
	must(t, err)
	must(t, s.service.SetLabel(t.Context(), account, "my sister"))
	<-l.set
	s.signInAs(t, "anna", "x", `,"email":"anna@example.org"`)
	<-l.read
	s.signInAs(t, "anna", "profile", "") // without a profile server
	c := *s.service.Config()
	c.LabelFromProfile = false
	s.service.Reload(c)
	s.signInAs(t, "bert", "x", `,"email":"bert@example.org"`)
	s.service.StopLearning() // nothing runs afterwards
	labels, err := s.service.LabelsOf(t.Context(), []string{"anna", "bert"})
	if err != nil || len(labels) != 1 || labels["anna"].Text != "my sister" || len(l.set) > 0 {
		t.Errorf("labels %+v, %v", labels, err)
	}
}

// TestLabelOfRefusedSignIn checks that a refused sign-in labels its account with the verified address, and that the label
// stays when the operator allows the account.
func TestLabelOfRefusedSignIn(t *testing.T) {
	t.Parallel()
	l := newLabelling()
	s := newServer(t, func(o *tokenserver.Options) {
		l.Store, o.Store = o.Store, l
		o.Config.LabelFromProfile, o.Config.AllowNewUsers = true, false
	})
	t.Cleanup(s.service.StopLearning)
	s.signInAs(t, "anna", "x", `,"email":"anna@example.org"`)
	l.want(t, "anna@example.org")
	account, err := s.service.ParseAccount("anna")
	must(t, err)
	must(t, s.service.SetAccess(t.Context(), account, tokenserver.Rule{Access: tokenserver.Allowed}))
	labels, err := s.service.LabelsOf(t.Context(), []string{"anna"})
	if err != nil || labels["anna"].Text != "anna@example.org" {
		t.Errorf("labels %+v, %v", labels, err)
	}
}

// TestLabelOfProfile checks that a hanging profile server delays no sign-in, and gets a request once a day.
func TestLabelOfProfile(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan string, 9), make(chan string)
	profile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		select {
		case text := <-answer:
			_, _ = io.WriteString(w, text)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(profile.Close)
	l := newLabelling()
	s := newServer(t, func(o *tokenserver.Options) {
		l.Store, o.Store = o.Store, l
		o.Config.LabelFromProfile, o.Config.FxAProfileServerURL = true, profile.URL
	})
	t.Cleanup(s.service.StopLearning)
	s.signInAs(t, "anna", "x", "") // Firefox's tokens have no scope for the profile
	s.signInAs(t, "anna", "profile:email", "")
	if got := <-asked; got == "" {
		t.Error("asked without the token")
	}
	<-l.read
	answer <- `{"email":"anna@example.org"}`
	if got := <-l.set; got.Text != "anna@example.org" {
		t.Errorf("labelled %+v", got)
	}
	s.signInAs(t, "anna", "profile:email", "")
	<-l.read // known for less than a day
	s.hands.Advance(25 * time.Hour)
	for range 8 { // more than the concurrency limit
		s.signInAs(t, "anna", "profile:email", "")
	}
	<-asked
	s.service.StopLearning() // ends waiting requests
	for len(asked) > 0 {
		<-asked
	}
	s.signInAs(t, "anna", "profile:email", "")
	if len(asked) > 0 || len(l.set) > 0 {
		t.Errorf("asked %d times after the end, labelled %d times", len(asked), len(l.set))
	}
}
