package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"holdfast/internal/guest"
)

// TestTwoTabs changes a wishlist in two tabs concurrently, each in another process, also with the same idempotency
// keys. Nothing may fail, each tab must read its own changes, and finally both must read the table's rows. After
// one tab clears the session, the other tab continues with an empty wishlist, and none of its data reaches the new
// session.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	inProfiles(t, twoTabs)
}

func twoTabs(t *testing.T, s *server) {
	first := s.begin()
	tabs := []*browser{first, {server: s.at(func(*parts) {}), cookie: first.cookie}}
	var all sync.WaitGroup
	for i, tab := range tabs {
		all.Go(func() {
			for n := range 20 {
				key := fmt.Sprintf("Idempotency-Key: both-%d", n)
				if a := tab.send(http.MethodPost, "/wishlist", s.wish(s.nth(n)), key); a.status != 201 && a.status != 409 {
					t.Errorf("tab %d adds %d: %d %s", i, n, a.status, a.body)
				}
				mine := s.nth(100 + 2*n + i)
				tab.want(201, http.MethodPost, "/wishlist", s.wish(mine))
				tab.want(200, http.MethodGet, "/wishlist", "", mine)
				tab.want(204, http.MethodDelete, "/wishlist/"+mine, "")
				if a := tab.send(http.MethodPatch, "/wishlist/"+s.nth(n), fmt.Sprintf(`{"note":"of tab %d"}`, i)); a.status != 200 && a.status != 404 {
					t.Errorf("tab %d notes %d: %d %s", i, n, a.status, a.body)
				}
			}
		})
	}
	all.Wait()
	session, _, _ := s.guests.VerifyCookie(first.cookie)
	table, err := s.store.Wishes(t.Context(), session, nil, 100)
	if err != nil || len(table) != 20 {
		t.Fatalf("%d entries, %v", len(table), err)
	}
	type list struct {
		Items []struct{ ID, PropertyID, ItemID, Note string }
	}
	for i, tab := range tabs {
		for range 2 { // from the table, then from the mirror
			got := parse[list](t, tab.want(200, http.MethodGet, "/wishlist", "").body).Items
			same := slices.EqualFunc(got, table, func(a struct{ ID, PropertyID, ItemID, Note string }, b guest.Wish) bool {
				return a.ID == string(b.ID) && a.PropertyID+a.ItemID == b.Item && a.Note == b.Note
			})
			if !same {
				t.Errorf("tab %d reads %v, the table has %v", i, got, table)
			}
		}
	}

	tabs[0].want(204, http.MethodPost, "/session/clear", "")
	tabs[1].want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
	tabs[1].want(201, http.MethodPost, "/wishlist", s.wish(s.nth(1)))
	tabs[0].want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
}
