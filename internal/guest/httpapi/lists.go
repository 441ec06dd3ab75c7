package httpapi

import "net/http"

// list is the body of a response with a whole list.
type list[T any] struct {
	Items []T `json:"items"`
}

// sendList sends a list, newest first.
func sendList[T any](x *exchange, items []T, err error) error {
	if err != nil {
		return err
	}
	if items == nil {
		items = []T{}
	}
	return x.sendJSON(http.StatusOK, list[T]{items})
}

func (x *exchange) sendJSON(status int, body any) error {
	a, err := jsonAnswer(status, body)
	if err == nil {
		send(x.out, a)
	}
	return err
}

func (x *exchange) listViewed() error {
	items, err := x.Guests.Viewed(x.ctx(), x.session)
	return sendList(x, items, err)
}

// addViewed needs no idempotency key: a property is in the list once.
func (x *exchange) addViewed() error {
	var in struct {
		TenantID   string `json:"tenantId"`
		PropertyID string `json:"propertyId"`
	}
	if err := decode(x.body, &in); err != nil {
		return err
	}
	v, err := x.Guests.AddViewed(x.ctx(), x.session, in.TenantID, in.PropertyID)
	if err != nil {
		return err
	}
	v.TenantID = spelled(v.TenantID, in.TenantID)
	return x.sendJSON(http.StatusCreated, v)
}

func (x *exchange) listHistory() error {
	items, err := x.Guests.History(x.ctx(), x.session)
	return sendList(x, items, err)
}
