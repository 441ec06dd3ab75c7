package httpapi

import (
	"net/http"
	"time"
)

// list is a JSON object with items, so that members can be added later.
type list[T any] struct {
	Items []T `json:"items"`
}

// sendList answers with a list, which is [] rather than null if it is empty, or passes err on.
func sendList[T any](x *exchange, items []T, err error) error {
	if err != nil {
		return err
	}
	if items == nil {
		items = []T{}
	}
	return x.sendJSON(http.StatusOK, list[T]{items})
}

// sendJSON answers with a JSON body.
func (x *exchange) sendJSON(status int, body any) error {
	a, err := jsonAnswer(status, body)
	if err == nil {
		send(x.out, a)
	}
	return err
}

// listViewed lists recently viewed items, newest first.
func (x *exchange) listViewed() error {
	items, err := x.Guests.Viewed(x.ctx(), x.session)
	if x.Guests.Profile().IsHotel() {
		return sendList(x, items, err)
	}
	views := make([]viewedItem, len(items))
	for i, v := range items {
		views[i] = viewedItem(v)
	}
	return sendList(x, views, err)
}

// viewedItem is a viewed item in profiles other than hotel.
type viewedItem struct {
	TenantID string    `json:"tenantId"`
	ItemID   string    `json:"itemId"`
	ViewedAt time.Time `json:"viewedAt"`
}

// addViewed needs no idempotency key, because the list contains an item once.
func (x *exchange) addViewed() error {
	var tenant, item string
	var err error
	hotel := x.Guests.Profile().IsHotel()
	if hotel {
		var in struct {
			TenantID   string `json:"tenantId"`
			PropertyID string `json:"propertyId"`
		}
		err = decode(x.body, &in)
		tenant, item = in.TenantID, in.PropertyID
	} else {
		var in struct {
			TenantID string `json:"tenantId"`
			ItemID   string `json:"itemId"`
		}
		err = decode(x.body, &in)
		tenant, item = in.TenantID, in.ItemID
	}
	if err != nil {
		return err
	}
	v, err := x.Guests.AddViewed(x.ctx(), x.session, tenant, item)
	if err != nil {
		return err
	}
	v.TenantID = spelled(v.TenantID, tenant)
	if hotel {
		return x.sendJSON(http.StatusCreated, v)
	}
	return x.sendJSON(http.StatusCreated, viewedItem(v))
}

// listHistory lists the session's searches, newest first.
func (x *exchange) listHistory() error {
	items, err := x.Guests.History(x.ctx(), x.session)
	return sendList(x, items, err)
}
